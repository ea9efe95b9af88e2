//! How the ACME library reaches an authority: by HTTPS alone, within bounds of time and size.
//!
//! The library trusts some words of an authority that could make it panic; they end here.

use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Request, Response, Uri};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use serde_json::Value;
use tokio::time::timeout;
use tollgate_base::http_client::exchange;

use crate::net::tls::Trust;
use crate::time::Span;

/// Connects again for each request: an order takes a dozen of them, every other month.
pub(super) struct Https {
    directory: Uri,
    trust: Trust,
    retry_after: RetryAfter,
}

/// The pause that the last refusal asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct RetryAfter(Arc<Mutex<Option<Span>>>);

impl Https {
    pub(super) fn new(directory: &Uri, trust: &Trust, retry_after: &RetryAfter) -> Self {
        Self { directory: directory.clone(), trust: trust.clone(), retry_after: retry_after.clone() }
    }
}

impl HttpClient for Https {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let (trust, retry_after) = (self.trust.clone(), self.retry_after.clone());
        let is_directory = *request.uri() == self.directory;
        Box::pin(async move {
            if !is_https(request.uri()) {
                return Err(Error::Str("an address of https"));
            }
            let exchanged = timeout(TIMEOUT, exchange(request, Some(&trust), MAX_ANSWER)).await;
            let answer = exchanged.map_err(|_| Error::Str("an answer within 30 s"))?;
            let mut answer = answer.map_err(|error| Error::Other(Box::new(error)))?;
            let pause = take_pause(answer.headers_mut());
            if !answer.status().is_success() {
                retry_after.set(pause);
            }
            if is_directory && !is_sound(&answer) {
                return Err(Error::Str("a directory of ACME"));
            }
            let (parts, body) = answer.into_parts();
            Ok(BytesResponse { parts, body: Box::new(body) })
        })
    }
}

impl RetryAfter {
    pub(super) fn get(&self) -> Option<Span> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, pause: Option<Span>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = pause;
    }
}

/// Reads `Retry-After` in seconds. A value that a clock cannot add is removed.
fn take_pause(headers: &mut HeaderMap) -> Option<Span> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = match u64::from_str(value) {
        Ok(seconds) => seconds,
        // A date; the gate's own pauses do.
        Err(_) if value.bytes().any(|byte| byte.is_ascii_alphabetic()) => return None,
        Err(_) => u64::MAX,
    };
    if seconds > MAX_SECONDS {
        headers.remove(RETRY_AFTER);
    }
    Some(Span::from_secs(seconds.min(MAX_SECONDS)))
}

/// Whether every address in the directory is one.
fn is_sound(answer: &Response<Bytes>) -> bool {
    let Ok(Value::Object(directory)) = serde_json::from_slice(answer.body()) else { return false };
    answer.status().is_success()
        && directory
            .values()
            .filter_map(Value::as_str)
            .all(|text| text.parse().is_ok_and(|uri| is_https(&uri)))
}

fn is_https(uri: &Uri) -> bool {
    uri.scheme_str() == Some("https") && uri.host().is_some()
}

const TIMEOUT: Duration = Duration::from_secs(30);
/// A chain has a few kilobytes.
const MAX_ANSWER: usize = 1 << 20;
/// Thirty days.
const MAX_SECONDS: u64 = 30 * 86_400;

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_pause_is_read_and_one_beyond_all_clocks_is_taken_away() {
        for (value, seconds, stays) in [
            ("120", Some(120), true),
            ("2592001", Some(MAX_SECONDS), false),
            ("18446744073709551615", Some(MAX_SECONDS), false),
            ("99999999999999999999999", Some(MAX_SECONDS), false),
            ("Fri, 31 Dec 1999 23:59:59 GMT", None, true),
        ] {
            let mut headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(value))]);
            assert_eq!(take_pause(&mut headers), seconds.map(Span::from_secs), "{value}");
            assert_eq!(headers.contains_key(RETRY_AFTER), stays, "{value}");
        }
        assert_eq!(take_pause(&mut HeaderMap::new()), None);
    }

    #[test]
    fn a_directory_with_an_address_that_is_none_is_refused() {
        let is_sound = |body: &'static str| is_sound(&Response::new(Bytes::from_static(body.as_bytes())));
        assert!(is_sound(r#"{"newNonce":"https://ca.test/nonce","meta":{"profiles":{}}}"#));
        for body in ["", "[]", r#"{"newNonce":"http://ca.test/"}"#, r#"{"newNonce":"https://ca test/"}"#] {
            assert!(!is_sound(body), "{body}");
        }
    }
}
