//! `cors` of a route: the origins whose pages may read what the gate itself answers.

use http::{HeaderValue, Uri};
use tollgate_grammar::list::distinct;
use tollgate_grammar::{Findings, Located, StringList};

use crate::policy::AllowedOrigins;

/// The origins of the list.
pub(super) fn check(list: Option<&StringList>, f: &mut Findings) -> AllowedOrigins {
    let Some(list) = list else { return AllowedOrigins::None };
    if list.is_empty {
        f.error(&list.spot, "`cors` is empty", "leave it out to mean none");
    }
    let entries = distinct(Some(list), f);
    match entries.iter().find(|entry| entry.value == ANY) {
        Some(any) if entries.len() > 1 => {
            f.error(
                &any.spot,
                "`*` is listed with other origins",
                "with `*` no page sends credentials: list all, or `*` alone",
            );
            AllowedOrigins::Any
        }
        Some(_) => AllowedOrigins::Any,
        None => AllowedOrigins::Listed(entries.iter().filter_map(|entry| origin(entry, f)).collect()),
    }
}

/// An origin as browsers write it: in lower case, without a path, and without the port that its scheme implies.
fn origin(text: &Located<String>, f: &mut Findings) -> Option<HeaderValue> {
    let written = text.value.as_str();
    let Some(serialized) = serialized(written) else {
        f.error(
            &text.spot,
            format!("`{written}` is not an origin"),
            "as in \"https://app.example\", or \"*\"",
        );
        return None;
    };
    if serialized != *written {
        f.error(
            &text.spot,
            format!("no browser sends the origin `{written}`"),
            format!("write {serialized}"),
        );
    }
    HeaderValue::try_from(serialized).ok()
}

fn serialized(text: &str) -> Option<String> {
    let uri: Uri = text.parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?.to_ascii_lowercase(), uri.authority()?);
    let host = authority.host().to_ascii_lowercase();
    let default = match scheme.as_str() {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let port = authority.port_u16().filter(|port| *port != default);
    let has_more =
        authority.as_str().contains('@') || uri.path() != "/" || uri.query().is_some() || host.is_empty();
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    (!has_more && !host.contains('*')).then(|| format!("{scheme}://{host}{port}"))
}

const ANY: &str = "*";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_compared_as_browsers_write_them() {
        let table = [
            ("https://app.example", Some("https://app.example")),
            ("https://App.example:443/", Some("https://app.example")),
            ("http://app.example:8080", Some("http://app.example:8080")),
            ("http://[::1]:80", Some("http://[::1]")),
            ("https://app.example/x", None),
            ("https://app.example?x", None),
            ("https://u@app.example", None),
            ("https://*.app.example", None),
            ("app.example", None),
            ("file:///x", None),
            ("null", None),
            ("", None),
        ];
        for (text, origin) in table {
            assert_eq!(serialized(text).as_deref(), origin, "{text}");
        }
    }
}
