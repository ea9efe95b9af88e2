//! A multipart body: one that was built from parts gives those parts, and one of any bytes is read or refused.
//!
//! The first byte of the input chooses; the rest is the body, or contents of parts between zero bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_fuzz::{Answer, form, read};

const KIND: &str = "multipart/form-data; boundary=--x1";

fuzz_target!(|input: &[u8]| {
    let Some((&first, input)) = input.split_first() else { return };
    if first % 2 == 0 {
        any(input);
    } else {
        built(input);
    }
});

/// A part in front removes no value, and adds its own.
fn any(body: &[u8]) {
    let Answer::Values(found) = read(&form("log"), KIND, body) else { return };
    if body.is_empty() {
        return;
    }
    assert!(body.starts_with(b"----x1") && body.windows(8).any(|end| end == b"----x1--"), "no delimiters");
    let more = [b"----x1\r\nContent-Disposition: form-data; name=\"log\"\r\n\r\n-\r\n", body].concat();
    match read(&form("log"), KIND, &more) {
        Answer::Values(more) => {
            assert!(found.iter().all(|value| more.contains(value)) && more.contains(&b"-".to_vec()))
        }
        Answer::TooMany => assert_eq!(found.len(), 8),
        Answer::Unreadable => panic!("a part in front of it is unreadable"),
    }
}

fn built(input: &[u8]) {
    let contents: Vec<&[u8]> = input.split(|byte| *byte == 0).take(8).collect();
    if contents.iter().any(|content| content.windows(6).any(|part| part == b"----x1")) {
        return;
    }
    let mut body = Vec::new();
    for content in &contents {
        let head = b"----x1\r\nContent-Disposition: form-data; name=\"log\"\r\n\r\n";
        body.extend_from_slice(&[head, *content, b"\r\n"].concat());
    }
    body.extend_from_slice(b"----x1--\r\n");
    let Answer::Values(found) = read(&form("log"), KIND, &body) else {
        // The end of a content and the line feed behind it must never make a delimiter with what follows.
        panic!("a body that was built is unreadable")
    };
    for content in contents {
        assert!(found.iter().any(|value| *value == content || value.len() == 4096), "a part is missing");
    }
    assert_eq!(read(&form("other"), KIND, &body), Answer::Values(Vec::new()));
}
