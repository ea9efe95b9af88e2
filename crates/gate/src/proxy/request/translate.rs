//! Translates an HTTP/2 request to its HTTP/1.1 form before it is validated.
//!
//! It changes only what HTTP/1.1 cannot express: `:authority` becomes `Host`, and several `Cookie` headers become one
//! (RFC 9113, 8.2.3). A `Content-Length` gets its usual spelling. Ambiguous headers stay as they are, and
//! `request::target` refuses them. A `Host` next to `:authority` stays, so that the two can be compared.

use http::header::{CONTENT_LENGTH, COOKIE, HOST};
use http::{HeaderValue, Request};

/// Gives a request its HTTP/1.1 form.
pub(in crate::proxy) fn to_http1<B>(request: &mut Request<B>) {
    let authority = request.uri().authority().map(|authority| HeaderValue::from_str(authority.as_str()));
    let headers = request.headers_mut();
    if let (false, Some(Ok(authority))) = (headers.contains_key(HOST), authority) {
        headers.insert(HOST, authority);
    }
    if headers.get_all(COOKIE).iter().nth(1).is_some() {
        let cookies: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
        if let Ok(cookie) = HeaderValue::from_bytes(&cookies.join(&b"; "[..])) {
            headers.insert(COOKIE, cookie);
        }
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    if let (Some(length), None) = (lengths.next(), lengths.next())
        && let Some(length) = length.to_str().ok().and_then(|digits| digits.parse::<u64>().ok())
    {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_other_form_takes_that_of_http_1() {
        let request =
            Request::builder().uri("https://App.test/x").header(COOKIE, "a=1").header(COOKIE, "b=2");
        let mut request = request.header(CONTENT_LENGTH, "007").body(()).unwrap();
        to_http1(&mut request);
        let headers = request.headers();
        assert_eq!(
            (&headers[HOST], &headers[COOKIE]),
            (&"App.test".parse().unwrap(), &"a=1; b=2".parse().unwrap())
        );
        assert_eq!(headers[CONTENT_LENGTH], "7");
    }

    #[test]
    fn what_is_ambiguous_stays_as_it_is() {
        let request = Request::builder().uri("https://a/x").header(HOST, "b");
        let mut request = request.header(CONTENT_LENGTH, "1").header(CONTENT_LENGTH, "2").body(()).unwrap();
        to_http1(&mut request);
        assert_eq!(request.headers()[HOST], "b");
        assert_eq!(request.headers().get_all(CONTENT_LENGTH).iter().count(), 2);
    }
}
