//! A JSON body of any bytes: what a reader that builds a tree finds at a pointer is found here.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tollgate_fuzz::{Answer, json, read};

fuzz_target!(|body: &[u8]| {
    for pointer in ["/a", "/a/b", "/a/0", "/user~1name"] {
        let answer = read(&json(pointer), "application/json", body);
        // A body of blanks has no values for either reader.
        if !body.iter().any(u8::is_ascii_graphic) {
            continue;
        }
        let Ok(tree) = serde_json::from_slice::<Value>(body) else { continue };
        let Some(value) = tree.pointer(pointer) else { continue };
        match (value, answer) {
            (_, Answer::TooMany) => {}
            (Value::Object(_), answer) => assert_eq!(answer, Answer::Unreadable, "{pointer} is an object"),
            (Value::Array(items), Answer::Values(found)) => {
                assert!(items.iter().all(|item| has(&found, item)), "an item is missing");
            }
            (_, Answer::Values(found)) => assert!(has(&found, value), "{value} is missing"),
            // Another member of this name may hold an object.
            (_, Answer::Unreadable) => {}
        }
    }
});

fn has(found: &[Vec<u8>], scalar: &Value) -> bool {
    let text = match scalar {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_f64().map_or(number.to_string(), |value| match number.is_f64() {
            true => (value + 0.0).to_string(),
            false => number.to_string(),
        }),
        other => other.to_string(),
    };
    found.iter().any(|found| *found == text.as_bytes() || found.len() == 4096)
}
