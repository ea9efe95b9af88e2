//! `Authorization: Basic` (RFC 7617), read as leniently as by servers.
//!
//! It checks no credentials, and leaves the scheme to [`authorization`](super::authorization). Text that is no Base64 is decoded all the same, in each of the ways of lenient servers:
//! PHP skips foreign characters, Apache stops at the first, and some accept the URL-safe alphabet.

use super::{Half, TooManyValues, Values};
use base64::Engine as _;
use base64::engine::general_purpose::GeneralPurposeConfig;
use base64::engine::{DecodePaddingMode, GeneralPurpose};

/// Adds one half of these credentials.
pub(super) fn find(credentials: &[u8], half: Half, found: &mut Values) -> Result<(), TooManyValues> {
    for pair in readings(credentials) {
        let colon = pair.iter().position(|byte| *byte == b':');
        match (half, colon) {
            // Without a colon, Apache takes the whole text as the name.
            (Half::User, _) => found.add(&pair[..colon.unwrap_or(pair.len())])?,
            (Half::Password, Some(colon)) => found.add(&pair[colon + 1..])?,
            (Half::Password, None) => {}
        }
    }
    Ok(())
}

/// The usual decoding.
pub(super) fn decode_leniently(credentials: &[u8]) -> Option<Vec<u8>> {
    readings(credentials).next()
}

/// The usual decoding, then others; mostly they are equal.
pub(super) fn readings(credentials: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let is_standard = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let all = credentials.iter().copied().filter(is_standard).collect();
    let first = credentials.iter().copied().take_while(is_standard).collect();
    let url = credentials.iter().map(|byte| match byte {
        b'-' => b'+',
        b'_' => b'/',
        other => *other,
    });
    [all, first, url.filter(is_standard).collect()].into_iter().filter_map(decode)
}

/// Decodes Base64 without padding; ignores a last character that makes no byte. `None` if nothing is left.
pub(super) fn decode(mut letters: Vec<u8>) -> Option<Vec<u8>> {
    if letters.len() % 4 == 1 {
        letters.pop();
    }
    LENIENT.decode(letters).ok().filter(|pair| !pair.is_empty())
}

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http::header::AUTHORIZATION;

    use super::super::{Field, authorization};
    use super::*;

    fn read(half: Half, lines: &[&str]) -> Vec<String> {
        let lines = lines.iter().map(|line| (AUTHORIZATION, line.parse().unwrap()));
        let mut found = Values::default();
        let headers = lines.fold(HeaderMap::new(), |mut headers, (name, value)| {
            headers.append(name, value);
            headers
        });
        authorization::find(&[Field::Basic], &headers, half, &mut found).unwrap();
        found.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    }

    #[test]
    fn the_first_colon_separates_name_and_password() {
        // The example of RFC 7617, section 2.
        let line = ["Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="];
        assert_eq!(read(Half::User, &line), ["Aladdin"]);
        assert_eq!(read(Half::Password, &line), ["open sesame"]);
        assert_eq!(read(Half::User, &["basic YTpiOmM="]), ["a"]);
        assert_eq!(read(Half::Password, &["BASIC\tYTpiOmM="]), ["b:c"]);
    }

    #[test]
    fn credentials_without_padding_or_colon_name_an_account() {
        assert_eq!(read(Half::User, &["Basic YTpiOmM"]), ["a"]);
        assert_eq!(read(Half::User, &["Basic YWI"]), ["ab"]);
        assert_eq!(read(Half::Password, &["Basic YWI"]), [""; 0]);
    }

    #[test]
    fn foreign_letters_have_all_their_readings() {
        // `YTpi` is `a:b`.
        assert_eq!(read(Half::User, &["Basic !YT!pi"]), ["a"]);
        assert_eq!(read(Half::User, &["Basic /-8="]), ["\u{fffd}", "\u{fffd}\u{fffd}"]);
        assert_eq!(read(Half::User, &["Basic YWRtaW4=eA=="]), ["admin\u{1e}", "admin"]);
    }

    #[test]
    fn every_line_counts_and_other_schemes_do_not() {
        assert_eq!(read(Half::User, &["Basic YTpi", "Bearer YTpi", "Basic Yjpi", "Basic", ""]), ["a", "b"]);
        assert_eq!(read(Half::User, &["BasicYTpi", "Basic  ", "Basic ="]), [""; 0]);
    }
}
