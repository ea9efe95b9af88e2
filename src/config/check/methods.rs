//! Warns of unregistered methods: a pattern with a mistyped method protects nothing.
//!
//! A method is known if it is registered (IANA, "HTTP Method Registry", 2025). Any other is legal (RFC 9110, 16.1), so
//! it gets a warning.

use tollgate_grammar::diagnostic::nearest;
use tollgate_grammar::{Findings, Located};

/// Warns of the method of a pattern, if it is one in capitals that no registry knows.
pub(super) fn warn(text: &Located<String>, f: &mut Findings) {
    let start = text.value.len() - text.value.trim_start().len();
    let Some(method) = text.value.split_whitespace().next() else { return };
    let is_method = method.bytes().all(|byte| byte.is_ascii_uppercase() || b"-_0123456789".contains(&byte));
    if !is_method || method == ANY || REGISTERED.contains(&method) {
        return;
    }
    let hint = match nearest(method, REGISTERED.into_iter().chain([ANY])) {
        Some(known) => format!("did you mean `{known}`?"),
        None => "POST counts every method that can carry a form, invented ones too".to_owned(),
    };
    let spot = text.spot.part(&text.value, start..start + method.len());
    f.warning(&spot, format!("no registry knows a method `{method}`"), hint);
}

const ANY: &str = "ANY";
const REGISTERED: [&str; 40] = [
    "POST",
    "GET",
    "PUT",
    "HEAD",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "CONNECT",
    "TRACE",
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "COPY",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "ORDERPATCH",
    "PRI",
    "PROPFIND",
    "PROPPATCH",
    "QUERY",
    "REBIND",
    "REPORT",
    "SEARCH",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::preset::presets;

    #[test]
    fn every_method_of_every_preset_is_known() {
        for preset in presets() {
            let texts = preset.text().split('"').filter_map(|text| text.split_once(" /"));
            let is_method =
                |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase());
            for (method, _) in texts.filter(|(method, _)| is_method(method)) {
                assert!(method == ANY || REGISTERED.contains(&method), "{method} in {}", preset.name);
            }
        }
    }
}
