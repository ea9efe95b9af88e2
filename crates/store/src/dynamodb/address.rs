//! The address of a DynamoDB table: `dynamodb://[KEY:SECRET@]TABLE?region=R[&endpoint=URL][&ca=FILE]`.
//!
//! What is missing comes from the environment, as in Amazon's own tools: the region here, keys in
//! [`credentials`](super::credentials). A key in the address is a secret like any password, so errors repeat nothing
//! that is in front of the `@`.

use std::path::PathBuf;

use http::Uri;
use percent_encoding::percent_decode_str;

use super::sign::AwsKeys;
use crate::address::BadStoreAddress;

/// A parsed address.
#[derive(Clone)]
pub(super) struct DynamoDbAddress {
    pub(super) table: String,
    pub(super) region: String,
    pub(super) server: HttpServer,
    /// A file of roots in place of the system's.
    pub(super) ca: Option<PathBuf>,
    /// Keys in place of the environment's.
    pub(super) keys: Option<AwsKeys>,
}

/// An HTTP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HttpServer {
    pub(super) is_https: bool,
    /// A name or an address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// As in the `host` header: with the port, if it is not the default one.
    pub(super) authority: String,
}

/// Why a text is not the URL of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadServerUrl {
    #[error("http://HOST[:PORT] or https://HOST[:PORT] is wanted")]
    Form,
    #[error("a URL without a path is wanted")]
    HasPath,
}

impl DynamoDbAddress {
    /// Parses an address, in an environment.
    pub(super) fn parse(
        url: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, BadStoreAddress> {
        let rest = url.strip_prefix("dynamodb://").unwrap_or(url);
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (keys, table) = match rest.rsplit_once('@') {
            Some((keys, table)) => (Some(keys_of(keys)?), table),
            None => (None, rest),
        };
        let (mut region, mut endpoint, mut ca) = (None, None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let slot = match name {
                "region" => &mut region,
                "endpoint" => &mut endpoint,
                "ca" => &mut ca,
                _ => {
                    let why = format!("unknown option `{name}`; options are region, endpoint and ca");
                    return Err(why.into());
                }
            };
            if slot.replace(decoded(value, name)?).is_some() {
                return Err(format!("`{name}` is there twice").into());
            }
        }
        let region =
            region.or_else(|| environment("AWS_REGION")).or_else(|| environment("AWS_DEFAULT_REGION"));
        let region = checked_region(region)?;
        let server = match &endpoint {
            Some(url) => HttpServer::parse(url).map_err(|wrong| format!("endpoint: {wrong}"))?,
            None => HttpServer::https(&usual_host(&region)),
        };
        if ca.is_some() && !server.is_https {
            return Err("`ca` is for an endpoint with https".into());
        }
        Ok(Self { table: checked_table(table)?, region, server, ca: ca.map(PathBuf::from), keys })
    }
}

impl HttpServer {
    /// Parses a URL without a path.
    pub(super) fn parse(url: &str) -> Result<Self, BadServerUrl> {
        let (server, path) = Self::parse_with_path(url)?;
        if path == "/" { Ok(server) } else { Err(BadServerUrl::HasPath) }
    }

    /// Parses a URL; returns its path and query as well.
    pub(super) fn parse_with_path(url: &str) -> Result<(Self, String), BadServerUrl> {
        let uri: Uri = url.parse().map_err(|_| BadServerUrl::Form)?;
        let is_https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(BadServerUrl::Form),
        };
        let authority = uri
            .authority()
            .filter(|authority| !authority.as_str().contains('@'))
            .ok_or(BadServerUrl::Form)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        // If the text behind a colon is not a number, `http` reports that there is no port.
        let port =
            match authority.as_str().strip_prefix(authority.host()).and_then(|rest| rest.strip_prefix(':')) {
                Some(_) => authority.port_u16().filter(|&port| port > 0).ok_or(BadServerUrl::Form)?,
                None if is_https => 443,
                None => 80,
            };
        if host.is_empty() {
            return Err(BadServerUrl::Form);
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok((Self { is_https, host, port, authority: authority.as_str().to_ascii_lowercase() }, path))
    }

    fn https(host: &str) -> Self {
        Self { is_https: true, host: host.to_owned(), port: 443, authority: host.to_owned() }
    }
}

fn keys_of(text: &str) -> Result<AwsKeys, BadStoreAddress> {
    let (access, secret) = text.split_once(':').ok_or("KEY:SECRET is wanted in front of the `@`")?;
    let (access, secret) = (decoded(access, "the key")?, decoded(secret, "the secret")?);
    AwsKeys::new(access, secret, None).ok_or_else(|| "KEY:SECRET is wanted in front of the `@`".into())
}

fn decoded(text: &str, what: &str) -> Result<String, BadStoreAddress> {
    let decoded = percent_decode_str(text).decode_utf8().map_err(|_| format!("{what} is not in UTF-8"))?;
    Ok(decoded.into_owned())
}

fn checked_region(region: Option<String>) -> Result<String, BadStoreAddress> {
    let region = region.filter(|region| !region.is_empty());
    let region =
        region.ok_or("a region is wanted: `?region=eu-central-1`, or AWS_REGION in the environment")?;
    let is_usual = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if region.len() > 64 || !region.bytes().all(is_usual) {
        return Err("a region is made of letters a to z, digits and `-`".into());
    }
    Ok(region)
}

/// "Naming rules" of the Amazon DynamoDB Developer Guide.
fn checked_table(table: &str) -> Result<String, BadStoreAddress> {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if table.is_empty() {
        return Err("a table is wanted: `dynamodb://TABLE?region=R`".into());
    }
    if !(3..=255).contains(&table.len()) || !table.bytes().all(is_usual) {
        return Err("a table's name is 3 to 255 letters, digits, `_`, `-` and `.`".into());
    }
    Ok(table.to_owned())
}

fn usual_host(region: &str) -> String {
    let end = if region.starts_with("cn-") { ".cn" } else { "" };
    format!("dynamodb.{region}.amazonaws.com{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<DynamoDbAddress, BadStoreAddress> {
        DynamoDbAddress::parse(url, |_| None)
    }

    #[test]
    fn a_table_and_a_region_are_enough() {
        let address = parse("dynamodb://gate-buckets?region=eu-central-1").unwrap();
        assert_eq!((&address.table[..], &address.region[..]), ("gate-buckets", "eu-central-1"));
        assert_eq!(address.server, HttpServer::https("dynamodb.eu-central-1.amazonaws.com"));
        assert!(address.ca.is_none() && address.keys.is_none());
        let china = parse("dynamodb://buckets?region=cn-north-1").unwrap();
        assert_eq!(china.server.host, "dynamodb.cn-north-1.amazonaws.com.cn");
    }

    #[test]
    fn a_region_may_come_from_the_environment_but_the_address_wins() {
        let environment = |name: &str| (name == "AWS_REGION").then(|| "us-west-2".to_owned());
        assert_eq!(DynamoDbAddress::parse("dynamodb://buckets", environment).unwrap().region, "us-west-2");
        let both = DynamoDbAddress::parse("dynamodb://buckets?region=eu-west-1", environment).unwrap();
        assert_eq!(both.region, "eu-west-1");
    }

    #[test]
    fn an_endpoint_is_http_or_https_with_or_without_a_port() {
        for (url, is_https, host, port, authority) in [
            ("http://127.0.0.1:8000", false, "127.0.0.1", 8000, "127.0.0.1:8000"),
            ("http://Localhost/", false, "Localhost", 80, "localhost"),
            ("https://[::1]:4567", true, "::1", 4567, "[::1]:4567"),
            ("https%3A%2F%2Fvpce.example.org", true, "vpce.example.org", 443, "vpce.example.org"),
        ] {
            let address = parse(&format!("dynamodb://buckets?region=r&endpoint={url}")).unwrap();
            let (host, authority) = (host.to_owned(), authority.to_owned());
            assert_eq!(address.server, HttpServer { is_https, host, port, authority }, "{url}");
        }
    }

    #[test]
    fn keys_in_the_address_may_hold_any_letter() {
        let address = parse("dynamodb://AKID:a%2Fb%3Fc%40d+e@buckets?region=r").unwrap();
        let keys = address.keys.unwrap();
        assert_eq!((&keys.access[..], &keys.secret[..], keys.token), ("AKID", "a/b?c@d+e", None));
        assert_eq!(address.table, "buckets");
    }

    #[test]
    fn mistakes_are_said_and_secrets_are_not() {
        for (url, words) in [
            ("dynamodb://?region=r", "a table is wanted: `dynamodb://TABLE?region=R`"),
            ("dynamodb://ab?region=r", "a table's name is 3 to 255 letters, digits, `_`, `-` and `.`"),
            ("dynamodb://a/b?region=r", "a table's name is 3 to 255 letters, digits, `_`, `-` and `.`"),
            (
                "dynamodb://buckets",
                "a region is wanted: `?region=eu-central-1`, or AWS_REGION in the environment",
            ),
            (
                "dynamodb://buckets?region=",
                "a region is wanted: `?region=eu-central-1`, or AWS_REGION in the environment",
            ),
            ("dynamodb://buckets?region=EU", "a region is made of letters a to z, digits and `-`"),
            ("dynamodb://buckets?region=r&region=r", "`region` is there twice"),
            ("dynamodb://buckets?regoin=r", "unknown option `regoin`; options are region, endpoint and ca"),
            (
                "dynamodb://buckets?region=r&endpoint=localhost:8000",
                "endpoint: http://HOST[:PORT] or https://HOST[:PORT] is wanted",
            ),
            (
                "dynamodb://buckets?region=r&endpoint=http://host:99999",
                "endpoint: http://HOST[:PORT] or https://HOST[:PORT] is wanted",
            ),
            (
                "dynamodb://buckets?region=r&endpoint=http://me:secret@host",
                "endpoint: http://HOST[:PORT] or https://HOST[:PORT] is wanted",
            ),
            (
                "dynamodb://buckets?region=r&endpoint=http://host/path",
                "endpoint: a URL without a path is wanted",
            ),
            ("dynamodb://buckets?region=r&endpoint=http://host&ca=x", "`ca` is for an endpoint with https"),
            ("dynamodb://secret@buckets?region=r", "KEY:SECRET is wanted in front of the `@`"),
            ("dynamodb://AKID:@buckets?region=r", "KEY:SECRET is wanted in front of the `@`"),
            ("dynamodb://AKID:%ffsecret@buckets?region=r", "the secret is not in UTF-8"),
            ("dynamodb://AKID:secret%0A@buckets?region=r", "KEY:SECRET is wanted in front of the `@`"),
        ] {
            assert_eq!(parse(url).err(), Some(words.into()), "{url}");
            assert!(!words.to_ascii_lowercase().contains("secret%") && !words.contains("me:"), "{words}");
        }
    }
}
