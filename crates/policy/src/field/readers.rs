//! Simple readers like those of applications: every value that one of them finds has to be among our values.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, COOKIE};
use http::{HeaderMap, HeaderValue, Method};
use percent_encoding::percent_decode;
use proptest::prelude::*;
use serde_json::Value;

use super::super::attempt::{AttemptBody, Client};
use super::*;

/// A request with account names in any locations.
#[derive(Debug, Clone)]
struct SampleRequest {
    kinds: Vec<String>,
    coding: Option<&'static str>,
    query: String,
    cookie: String,
    body: Vec<u8>,
}

fn request() -> impl Strategy<Value = SampleRequest> {
    let kind = prop::sample::select(&[
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/x-www-form-urlencoded; charset=shift_jis",
        "application/x-www-form-urlencoded; charset=utf-16",
        "application/json",
        "application/json; charset=utf-32",
        "multipart/form-data; boundary=x",
        "multipart/form-data; boundary=y; boundary=x",
        "Multipart/Form-Data; charset=cp037; boundary=x",
    ]);
    let kinds = prop::collection::vec(kind.prop_map(str::to_owned), 1..3);
    let coding = prop::option::of(prop::sample::select(&["gzip", "identity", "x"][..]));
    let pairs = "((login|LOGIN|l%6fgin|pw|x)=[a-e%41+]{0,2}&){0,3}login=[a-e]";
    let cookie = "(sid=1; )?(login=[a-e]|x=a)";
    (kinds, coding, pairs, cookie, body()).prop_map(|(kinds, coding, query, cookie, body)| SampleRequest {
        kinds,
        coding,
        query,
        cookie,
        body,
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let form = "((login|l%6Fgin|pw|x)=[a-e%41+]{0,2}&){0,3}(login=[a-e])?";
    let document = "[ \\n]{0,1}\\{(\"x\": ?(1|\"a\"|\\[\\]), ?){0,2}\"login\" ?: ?(\"[a-e]{1,2}\"|[1-9]\
        |\"\\\\u0061\")(, \"pw\":1)?\\}";
    let parts = "(junk\\r\\n)?(--x\\r\\nContent-Disposition: form-data; (x=y; )?name=\"(login|pw)\"\\r\\n\
        (X-A: b\\r\\n)?\\r\\n[a-e]{1,2}\\r\\n){1,2}(--x--\\r\\n)?";
    let text = prop_oneof![form, document, parts];
    let encode = prop::sample::select(&[plain, plain, plain, big, little, wide][..]);
    (text, encode, "(|,| x|\\}|&)").prop_map(|(text, encode, behind)| encode(&format!("{text}{behind}")))
}

fn plain(text: &str) -> Vec<u8> {
    text.into()
}

fn big(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

fn little(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn wide(text: &str) -> Vec<u8> {
    text.chars().flat_map(|letter| u32::from(letter).to_be_bytes()).collect()
}

/// Reads a form as PHP, Django, Flask, Rails and Tomcat do, whatever encoding it declares.
fn in_form(text: &[u8]) -> Vec<Vec<u8>> {
    let decode = |part: &[u8]| -> Vec<u8> {
        let spaced: Vec<u8> = part.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
        percent_decode(&spaced).collect()
    };
    let pairs = text.split(|byte| *byte == b'&').filter_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        Some((decode(&pair[..at]), decode(&pair[at + 1..])))
    });
    pairs.filter(|(name, _)| name == b"login").map(|(_, value)| value).collect()
}

/// Reads a document as readers do that ignore the content type and detect the encoding.
fn in_document(body: &[u8]) -> Vec<Vec<u8>> {
    let units = |of: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = body.chunks_exact(2).map(|pair| of([pair[0], pair[1]])).collect();
        String::from_utf16_lossy(&units)
    };
    let letters =
        body.chunks_exact(4).map(|four| char::from_u32(u32::from_be_bytes(four.try_into().unwrap())));
    let wide: Option<String> = letters.collect();
    let texts = [
        Some(String::from_utf8_lossy(body).into_owned()),
        Some(units(u16::from_be_bytes)),
        Some(units(u16::from_le_bytes)),
        wide,
    ];
    let read = |text: String| match serde_json::from_str::<Value>(&text).ok()?.get("login")? {
        Value::String(text) => Some(text.clone().into_bytes()),
        other => Some(other.to_string().into_bytes()),
    };
    texts.into_iter().flatten().filter_map(read).collect()
}

/// Reads parts as readers do that search the delimiter and the name, and nothing else.
fn in_parts(body: &[u8]) -> Vec<Vec<u8>> {
    let text = String::from_utf8_lossy(body);
    let parts = text.split("--x").skip(1).filter_map(|part| part.split_once("\r\n\r\n"));
    let named = parts.filter(|(head, _)| head.contains("name=\"login\""));
    named.map(|(_, content)| content.trim_end_matches("\r\n").as_bytes().to_vec()).collect()
}

fn in_cookies(line: &str) -> Vec<Vec<u8>> {
    line.split("; ")
        .filter_map(|pair| pair.strip_prefix("login="))
        .map(|value| value.as_bytes().to_vec())
        .collect()
}

impl SampleRequest {
    fn says(&self, word: &str) -> bool {
        self.kinds.iter().any(|kind| kind.to_ascii_lowercase().contains(word))
    }

    /// The values of all readers that accept such a request.
    fn found(&self) -> Vec<Vec<u8>> {
        let mut found = [in_form(self.query.as_bytes()), in_document(&self.body)].concat();
        if !self.says("multipart") || self.says("urlencoded") {
            found.extend(in_form(&self.body));
        }
        if self.says("multipart") {
            found.extend(in_parts(&self.body));
        }
        found
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for kind in self.kinds.iter().filter(|kind| !kind.is_empty()) {
            headers.append(CONTENT_TYPE, HeaderValue::from_str(kind).unwrap());
        }
        if let Some(coding) = self.coding {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
        headers.insert(COOKIE, HeaderValue::from_str(&self.cookie).unwrap());
        headers
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// D17, D21: no application finds a name that is not charged.
    #[test]
    fn whatever_some_reader_finds_is_among_the_values(request in request(), is_document in any::<bool>()) {
        let headers = request.headers();
        let attempt = Attempt {
            method: &Method::POST,
            path: "/login",
            query: Some(&request.query),
            host: "",
            client: Client::UnixSocket,
            headers: &headers,
            body: AttemptBody::Whole(&request.body),
            descriptor: None,
            tls: None,
        };
        let field = if is_document { Field::json("/login") } else { Field::form("login") };
        let Ok(ours) = values(&[field.unwrap()], Half::User, &attempt) else { return Ok(()) };
        let mut theirs = request.found();
        if !is_document {
            theirs.extend(in_cookies(&request.cookie));
        }
        for value in theirs {
            let is_known = ours.iter().any(|known| known == value);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            prop_assert!(is_known, "{:?} in {:?}", text(&value), text(&request.body));
        }
    }
}
