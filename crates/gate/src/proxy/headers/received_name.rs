//! The names of received headers: usual spellings of usual names are compared, and all others are parsed.

use http::HeaderName;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING,
    CONTENT_LENGTH, CONTENT_TYPE, COOKIE, DATE, ETAG, EXPIRES, HOST, InvalidHeaderName, LAST_MODIFIED,
    LOCATION, ORIGIN, PRAGMA, REFERER, SERVER, SET_COOKIE, TRANSFER_ENCODING, UPGRADE_INSECURE_REQUESTS,
    USER_AGENT, VARY,
};

use super::{FORWARDED_FOR, FORWARDED_HOST, FORWARDED_PROTO, REQUEST_ID};

/// The name that was sent as these bytes.
///
/// # Errors
/// It is not a token.
pub fn received_name(sent: &[u8]) -> Result<HeaderName, InvalidHeaderName> {
    Ok(match sent {
        b"Host" => HOST,
        b"User-Agent" => USER_AGENT,
        b"Accept" => ACCEPT,
        b"Accept-Language" => ACCEPT_LANGUAGE,
        b"Accept-Encoding" => ACCEPT_ENCODING,
        b"Authorization" => AUTHORIZATION,
        b"Cache-Control" => CACHE_CONTROL,
        b"Connection" => CONNECTION,
        b"Content-Encoding" => CONTENT_ENCODING,
        b"Content-Length" => CONTENT_LENGTH,
        b"Content-Type" => CONTENT_TYPE,
        b"Cookie" => COOKIE,
        b"Date" => DATE,
        b"ETag" => ETAG,
        b"Expires" => EXPIRES,
        b"Last-Modified" => LAST_MODIFIED,
        b"Location" => LOCATION,
        b"Origin" => ORIGIN,
        b"Pragma" => PRAGMA,
        b"Priority" => PRIORITY,
        b"Referer" => REFERER,
        b"Sec-Fetch-Dest" => FETCH_DEST,
        b"Sec-Fetch-Mode" => FETCH_MODE,
        b"Sec-Fetch-Site" => FETCH_SITE,
        b"Sec-Fetch-User" => FETCH_USER,
        b"Server" => SERVER,
        b"Set-Cookie" => SET_COOKIE,
        b"Transfer-Encoding" => TRANSFER_ENCODING,
        b"Upgrade-Insecure-Requests" => UPGRADE_INSECURE_REQUESTS,
        b"Vary" => VARY,
        b"X-Forwarded-For" => FORWARDED_FOR,
        b"X-Forwarded-Host" => FORWARDED_HOST,
        b"X-Forwarded-Proto" => FORWARDED_PROTO,
        b"X-Forwarded-Method" => FORWARDED_METHOD,
        b"X-Forwarded-Uri" => FORWARDED_URI,
        b"X-Request-Id" => REQUEST_ID,
        _ => return HeaderName::from_bytes(sent),
    })
}

const PRIORITY: HeaderName = HeaderName::from_static("priority");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_USER: HeaderName = HeaderName::from_static("sec-fetch-user");
const FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_the_one_that_parsing_gives() {
        let source = include_str!("received_name.rs");
        let compared: Vec<&str> =
            source.lines().filter_map(|line| line.trim().strip_prefix("b\"")?.split('"').next()).collect();
        assert!(compared.len() > 30 && compared.contains(&"X-Request-Id"), "{compared:?}");
        for name in compared.into_iter().chain(["hOST", "x-odd", "a b", ""]) {
            assert_eq!(
                received_name(name.as_bytes()).ok(),
                HeaderName::from_bytes(name.as_bytes()).ok(),
                "{name}"
            );
        }
    }
}
