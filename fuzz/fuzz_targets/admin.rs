//! What callers of the admin API send: a request to explain is parsed or refused in words, and a text is checked without
//! reading a file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::config::{Sources, load};
use tollgate::observe::admin::ExplainRequest;

fuzz_target!(|input: &[u8]| {
    match ExplainRequest::parse(input) {
        Ok(request) => assert!(!request.method.as_str().is_empty()),
        Err(problem) => {
            let why = problem.to_string();
            assert!(!why.is_empty() && !why.chars().any(char::is_control), "{why:?}");
        }
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    let loaded = load(&Sources::from_text("fuzz.toml", text).sealed());
    assert!(loaded.config.is_none_or(|config| config.process.files.is_empty()), "a file was read");
});
