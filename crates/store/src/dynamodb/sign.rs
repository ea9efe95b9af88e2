//! Signatures of requests to Amazon: Signature Version 4, for a path without a query.
//!
//! Clocks and the source of the keys are left to the caller, and so is the canonical form: header names are in lower
//! case and sorted, with values that need no trimming.
//!
//! Source: "Create a signed AWS API request" of the IAM User Guide; tested with Amazon's own test suite.

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use tollgate_bucket::Time;

/// The keys that a request is signed with. Purposefully not `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct AwsKeys {
    pub(super) access: String,
    pub(super) secret: String,
    pub(super) token: Option<String>,
}

impl AwsKeys {
    /// `None` unless all parts are visible ASCII, and none is empty.
    pub(super) fn new(access: String, secret: String, token: Option<String>) -> Option<Self> {
        let is_valid = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let are_valid = is_valid(&access) && is_valid(&secret) && token.as_deref().is_none_or(is_valid);
        are_valid.then_some(Self { access, secret, token })
    }
}

/// Where and when a signature is valid.
pub(super) struct SigningScope<'a> {
    pub(super) region: &'a str,
    pub(super) service: &'a str,
    /// As [`stamp`] writes it.
    pub(super) stamp: &'a str,
}

/// The parts of a request that are signed.
pub(super) struct Signed<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    /// In lower case, sorted by name; `host` and `x-amz-date` must be among them.
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a [u8],
}

/// A time in the form of `x-amz-date`: `20150830T123600Z`.
pub(super) fn stamp(time: Time) -> String {
    let timestamp = Timestamp::from_nanosecond(i128::from(time.as_nanos())).unwrap_or_default();
    timestamp.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// The value of the `authorization` header.
pub(super) fn authorization(keys: &AwsKeys, scope: &SigningScope<'_>, signed: &Signed<'_>) -> String {
    let names = signed.headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let date = scope.stamp.get(..8).unwrap_or(scope.stamp);
    let SigningScope { region, service, stamp } = scope;
    let credential = format!("{date}/{region}/{service}/aws4_request");
    let string_to_sign =
        format!("AWS4-HMAC-SHA256\n{stamp}\n{credential}\n{}", hash(canonical(signed, &names).as_bytes()));
    let first = hmac(format!("AWS4{}", keys.secret).as_bytes(), date);
    let key = [region, service, "aws4_request"].iter().fold(first, |key, part| hmac(&key, part));
    let signature = hexadecimal(&hmac(&key, &string_to_sign));
    let access = &keys.access;
    format!("AWS4-HMAC-SHA256 Credential={access}/{credential}, SignedHeaders={names}, Signature={signature}")
}

fn canonical(signed: &Signed<'_>, names: &str) -> String {
    let headers: String = signed.headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let Signed { method, path, body, .. } = signed;
    format!("{method}\n{path}\n\n{headers}\n{names}\n{}", hash(body))
}

fn hmac(key: &[u8], text: &str) -> [u8; 32] {
    // HMAC takes a key of any length, so there always is one.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 32] };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().into()
}

fn hash(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From `aws-sig-v4-test-suite`: name, method, headers other than `host` and `x-amz-date`, body, signature.
    type Vector =
        (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static str, &'static str);

    const SUITE: [Vector; 6] = [
        ("get-vanilla", "GET", &[], "", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("post-vanilla", "POST", &[], "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (
            "post-header-key-case",
            "POST",
            &[("my-header1", "value1")],
            "",
            "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
        ),
        (
            "get-header-value-trim",
            "GET",
            &[("my-header1", "value1"), ("my-header2", "\"a b c\"")],
            "",
            "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
        ),
        (
            "post-sts-header-before",
            "POST",
            &[("x-amz-security-token", TOKEN)],
            "",
            "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
        ),
        (
            "post-x-www-form-urlencoded",
            "POST",
            &[("content-type", "application/x-www-form-urlencoded")],
            "Param1=value1",
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
    ];

    const TOKEN: &str = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";

    #[test]
    fn the_signatures_of_amazons_test_suite_come_out() {
        let keys = AwsKeys {
            access: "AKIDEXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
            token: None,
        };
        let stamp = stamp(Time::from_nanos(1_440_938_160_000_000_000));
        assert_eq!(stamp, "20150830T123600Z");
        let scope = SigningScope { region: "us-east-1", service: "service", stamp: &stamp };
        for (name, method, more, body, signature) in SUITE {
            let mut headers = vec![("host", "example.amazonaws.com"), ("x-amz-date", &stamp[..])];
            headers.extend(more);
            headers.sort_unstable();
            let names: Vec<_> = headers.iter().map(|(name, _)| *name).collect();
            let signed = Signed { method, path: "/", headers: &headers, body: body.as_bytes() };
            let expected = format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                 SignedHeaders={}, Signature={signature}",
                names.join(";")
            );
            assert_eq!(authorization(&keys, &scope, &signed), expected, "{name}");
        }
    }

    #[test]
    fn every_time_that_can_be_said_has_a_stamp() {
        assert_eq!(stamp(Time::default()), "19700101T000000Z");
        assert_eq!(stamp(Time::from_nanos(u64::MAX)), "25540721T233433Z");
    }
}
