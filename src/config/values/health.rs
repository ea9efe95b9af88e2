//! `"GET /healthz"`: the request of a health check.

use std::str::FromStr;

use http::Method;
use http::uri::PathAndQuery;
use tollgate_grammar::{Mistake, Syntax};

use crate::proxy::upstream::HealthProbe;

/// `health`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthProbeValue(pub HealthProbe);

impl Syntax for HealthProbeValue {
    fn pattern() -> Option<String> {
        Some(r"^(GET|HEAD) /[^\s#]*$".to_owned())
    }
}

impl FromStr for HealthProbeValue {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let wrong = || Mistake::new(format!("`{text}` is not a health check"), HINT);
        let (method, target) = text.split_once(' ').ok_or_else(wrong)?;
        let method = match method {
            "GET" => Method::GET,
            "HEAD" => Method::HEAD,
            _ => return Err(wrong()),
        };
        let is_path = target.starts_with('/') && !target.contains('#');
        let target = PathAndQuery::from_str(target).ok().filter(|_| is_path).ok_or_else(wrong)?;
        Ok(Self(HealthProbe { method, target }))
    }
}

const HINT: &str = "GET or HEAD and a path, as in \"GET /healthz\"";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_safe_method_and_a_path() {
        for text in ["GET /", "HEAD /healthz?full=1"] {
            let HealthProbeValue(HealthProbe { method, target }) = text.parse().unwrap();
            assert_eq!(format!("{method} {target}"), text);
        }
        for text in
            ["", "/healthz", "GET", "GET healthz", "POST /x", "get /x", "GET /a b", "GET  /", "GET /#a"]
        {
            assert!(text.parse::<HealthProbeValue>().is_err(), "{text}");
        }
    }
}
