//! The text that a signature is about (RFC 9421, 2.5): each covered component, and the parameters.
//!
//! Anything that is not sure to be the same text at both ends makes no base: components of trailers or of other messages, and
//! fields that are not there.

use http::uri::Authority;
use http::{HeaderMap, HeaderName, Request};
use sfv::{Dictionary, FieldType as _, InnerList, Item, List, ListEntry, Parser};

/// The base; `None` if a component is unknown, missing or there twice, or all are too long.
pub(super) fn signature_base<B>(request: &Request<B>, is_secure: bool, input: &InnerList) -> Option<Vec<u8>> {
    if input.items.len() > MAX_COMPONENTS {
        return None;
    }
    let (mut base, mut known) = (Vec::new(), Vec::new());
    for item in &input.items {
        let identifier = item.serialize();
        let value = component(request, is_secure, item)?;
        base.extend_from_slice(identifier.as_bytes());
        base.extend_from_slice(b": ");
        base.extend_from_slice(&value);
        base.push(b'\n');
        if known.contains(&identifier) || base.len() > MAX_BASE {
            return None;
        }
        known.push(identifier);
    }
    let params = serialized(ListEntry::InnerList(input.clone()))?;
    base.extend_from_slice(b"\"@signature-params\": ");
    base.extend_from_slice(params.as_bytes());
    Some(base)
}

fn component<B>(request: &Request<B>, is_secure: bool, item: &Item) -> Option<Vec<u8>> {
    let (name, uri) = (item.bare_item.as_string()?.as_str(), request.uri());
    let plain = || item.params.is_empty().then_some(());
    let value = match name {
        "@method" => request.method().as_str().to_owned(),
        "@authority" => authority(request, is_secure)?,
        "@scheme" => scheme(is_secure).to_owned(),
        "@path" => uri.path().to_owned(),
        "@query" => format!("?{}", uri.query().unwrap_or_default()),
        "@target-uri" => {
            let target = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
            format!("{}://{}{target}", scheme(is_secure), authority(request, is_secure)?)
        }
        _ => return field(request.headers(), name, item),
    };
    plain().map(|()| value.into_bytes())
}

/// The value of a header, or of one member of it (RFC 9421, 2.1.2).
fn field(headers: &HeaderMap, name: &str, item: &Item) -> Option<Vec<u8>> {
    let is_lower = !name.bytes().any(|byte| byte.is_ascii_uppercase());
    let header: HeaderName = name.parse().ok().filter(|_| is_lower)?;
    let value = joined(headers, &header)?;
    match (item.params.first(), item.params.len()) {
        (None, _) => Some(value),
        (Some((parameter, key)), 1) if parameter.as_str() == "key" && value.len() <= MAX_BASE => {
            let members: Dictionary = Parser::new(&value).parse().ok()?;
            serialized(members.get(key.as_string()?.as_str())?.clone()).map(String::into_bytes)
        }
        _ => None,
    }
}

/// All lines of a header as one value; `None` if there is none.
pub(super) fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<Vec<u8>> {
    let lines: Vec<&[u8]> = headers.get_all(name).iter().map(|line| line.as_bytes().trim_ascii()).collect();
    (!lines.is_empty()).then(|| lines.join(&b", "[..]))
}

fn serialized(entry: ListEntry) -> Option<String> {
    let list: List = vec![entry];
    list.serialize()
}

/// In lower case, without the port that its scheme implies (RFC 9421, 2.2.3).
fn authority<B>(request: &Request<B>, is_secure: bool) -> Option<String> {
    let host = || request.headers().get(http::header::HOST)?.to_str().ok();
    let named = request.uri().authority().map(Authority::as_str).or_else(host)?.to_ascii_lowercase();
    let implied = if is_secure { ":443" } else { ":80" };
    Some(named.strip_suffix(implied).map(ToOwned::to_owned).unwrap_or(named))
}

fn scheme(is_secure: bool) -> &'static str {
    if is_secure { "https" } else { "http" }
}

/// Components of one signature.
const MAX_COMPONENTS: usize = 16;
/// Bytes of all of them.
const MAX_BASE: usize = 8 * 1024;
