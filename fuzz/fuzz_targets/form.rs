//! An urlencoded body of any bytes: what the reader of the URL standard finds is found here, and an addition removes
//! nothing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_fuzz::{Answer, form, read};

fuzz_target!(|body: &[u8]| {
    for name in ["log", "user[email]"] {
        let Answer::Values(found) = read(&form(name), "", body) else { continue };
        for (known, value) in
            form_urlencoded::parse(body).filter(|(known, _)| known.eq_ignore_ascii_case(name))
        {
            // It writes U+FFFD for bytes that are no text.
            let is_text = !value.contains('\u{fffd}') && !known.contains('\u{fffd}');
            assert!(!is_text || found.iter().any(|found| is_start(found, value.as_bytes())), "{value:?}");
        }
        let (front, back) = body.split_at(body.len() / 2);
        let both = [front, b"&", back].concat();
        let Answer::Values(found) = read(&form(name), "", &both) else { continue };
        for half in [front, back] {
            let Answer::Values(of_half) = read(&form(name), "", half) else {
                panic!("fewer values are too many")
            };
            assert!(of_half.iter().all(|value| found.contains(value)), "a value is lost");
        }
    }
});

/// A long value is cut.
fn is_start(found: &[u8], value: &[u8]) -> bool {
    found == value || found.len() == 4096
}
