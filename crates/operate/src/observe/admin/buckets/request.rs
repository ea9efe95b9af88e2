//! Parses a request about a bucket: path, query and body.
//!
//! An unknown field is a mistake: it may be a misspelt `limit`, and without a limit all would be reset.

use std::error::Error;
use std::fmt;

use http::{StatusCode, Uri};
use hyper::body::Body;
use ipnet::IpNet;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use tollgate_grammar::Mistake;

use super::super::request::{AdminProblem, fields_of, pairs, wrong};
use crate::bucket::Continuous;
use crate::defences::OWNERS;
use crate::policy::bucket_ref::{BucketSelector, BucketSelectorError};
use crate::time::Span;

/// Parses values as the configuration does.
#[derive(Clone, Copy)]
pub struct Grammar {
    /// `"60/min"`, `"10 per 5m burst 20"`.
    pub rate: fn(&str) -> Result<Continuous, Mistake>,
    /// `"1d"`, `"1h30m"`.
    pub span: fn(&str) -> Result<Span, Mistake>,
    /// `"203.0.113.0/24"`, `"2001:db8::1"`; bits beyond the length are cleared.
    pub prefix: fn(&str) -> Result<IpNet, Mistake>,
}

/// A path below `/api/v1/buckets/`.
pub(in super::super) struct BucketPath {
    /// The key with its escapes decoded; `None` if an escape is invalid.
    key: Option<Vec<u8>>,
    pub(in super::super) resource: BucketResource,
}

/// What of a bucket the path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum BucketResource {
    Bucket,
    Credit,
    Rate,
    Ban,
    Exemption,
    Addresses,
}

/// The parts of the request other than its path.
pub(super) struct BucketRequest {
    pub(super) limit: Option<String>,
    fields: Map<String, Value>,
    grammar: Grammar,
}

impl BucketPath {
    /// `None` for any other path.
    pub(in super::super) fn parse(uri: &Uri) -> Option<Self> {
        let mut parts = uri.path().strip_prefix(PREFIX)?.split('/');
        let key = parts.next()?;
        let resource = match (parts.next(), parts.next()) {
            (None, _) => BucketResource::Bucket,
            (Some("credit"), None) => BucketResource::Credit,
            (Some("rate"), None) => BucketResource::Rate,
            (Some("ban"), None) => BucketResource::Ban,
            (Some("exemption"), None) => BucketResource::Exemption,
            (Some("addresses"), None) => BucketResource::Addresses,
            _ => return None,
        };
        let is_escaped = key.split('%').skip(1).all(|rest| {
            rest.get(..2).is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
        });
        Some(Self { key: is_escaped.then(|| percent_decode_str(key).collect()), resource })
    }

    pub(super) fn selector(&self) -> Result<BucketSelector, AdminProblem> {
        let key =
            self.key.as_deref().ok_or_else(|| wrong("the path holds a percent sign that escapes nothing"))?;
        BucketSelector::parse(key, OWNERS).map_err(|error| match error {
            BucketSelectorError::Kind(_) => AdminProblem::new(StatusCode::NOT_FOUND, error.to_string()),
            _ => wrong(error.to_string()),
        })
    }
}

impl BucketResource {
    pub(super) fn methods(self) -> &'static str {
        match self {
            Self::Bucket => "GET, HEAD, DELETE",
            Self::Credit => "POST",
            Self::Addresses => "DELETE",
            Self::Rate | Self::Ban | Self::Exemption => "PUT, DELETE",
        }
    }
}

impl BucketRequest {
    pub(super) async fn read<B>(query: Option<&str>, body: B, grammar: Grammar) -> Result<Self, AdminProblem>
    where
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let mut fields = fields_of(body).await?;
        for (name, value) in pairs(query.unwrap_or_default())? {
            if fields.insert(name.clone(), Value::String(value)).is_some() {
                return Err(wrong(format!("`{name}` is given twice")));
            }
        }
        let limit = match fields.get("limit") {
            None => None,
            Some(Value::String(limit)) => Some(limit.clone()),
            Some(_) => return Err(wrong("`limit` has to be the name of a limit")),
        };
        Ok(Self { limit, fields, grammar })
    }

    /// Refuses fields that this request has no use for.
    pub(super) fn has_only(&self, known: &[&str]) -> Result<(), AdminProblem> {
        match self.fields.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(wrong(format!("`{}` means nothing here", name.escape_debug()))),
            None => Ok(()),
        }
    }

    /// Whether this field is true; in a query it is a text.
    pub(super) fn is_set(&self, name: &str) -> Result<bool, AdminProblem> {
        match self.fields.get(name) {
            None => Ok(false),
            Some(Value::Bool(is)) => Ok(*is),
            Some(Value::String(text)) if text == "true" || text == "false" => Ok(text == "true"),
            Some(_) => Err(wrong(format!("`{name}` has to be true or false"))),
        }
    }

    pub(super) fn limit(&self) -> Result<&str, AdminProblem> {
        self.limit.as_deref().ok_or_else(|| wrong("`limit` is missing: the name of a limit"))
    }

    pub(super) fn tokens(&self) -> Result<u32, AdminProblem> {
        let tokens = self.fields.get("tokens").and_then(Value::as_u64).filter(|tokens| *tokens > 0);
        let tokens = tokens.and_then(|tokens| u32::try_from(tokens).ok());
        tokens.ok_or_else(|| wrong("`tokens` has to be a whole number from 1 to 4,294,967,295"))
    }

    /// The rate and its duration.
    pub(super) fn rate(&self) -> Result<(Continuous, Span), AdminProblem> {
        self.has_only(&["limit", "rate", "for"])?;
        let rate = (self.grammar.rate)(self.text("rate", "a rate, as in \"60/min\"")?)?;
        Ok((rate, self.lasts("a rate is ended by DELETE")?))
    }

    /// The time that `for` names.
    pub(super) fn lasts(&self, end: &str) -> Result<Span, AdminProblem> {
        match (self.grammar.span)(self.text("for", "a duration, as in \"1d\"")?)? {
            Span::ZERO => Err(wrong(format!("`for` is zero: {end}"))),
            lasts => Ok(lasts),
        }
    }

    fn text(&self, name: &str, what: &str) -> Result<&str, AdminProblem> {
        let text = self.fields.get(name).and_then(Value::as_str);
        text.ok_or_else(|| wrong(format!("`{name}` has to be {what}")))
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Grammar")
    }
}

const PREFIX: &str = "/api/v1/buckets/";
