//! A reader, chosen by the first byte, with the rest of the input repeated up to the maximum length: it fails if a byte
//! costs more than a microsecond, or a path more than fifty.
//!
//! Time is that of the thread, and the least of several runs counts, so other processes make no difference.

#![no_main]

#[path = "../../tests/bounds/parsers.rs"]
mod parsers;

use libfuzzer_sys::fuzz_target;
use parsers::{PARSERS, TARGETS, thread_time};

fuzz_target!(|input: &[u8]| {
    let Some((&which, piece)) = input.split_first() else { return };
    if piece.is_empty() {
        return;
    }
    let all = TARGETS.len() + PARSERS.len();
    let at = usize::from(which) % all;
    let parser = TARGETS.iter().chain(PARSERS).nth(at).expect("one of them");
    let whole = parser.input(&[piece], parser.longest);
    let is_path = parser.name.starts_with("target: path") && !whole.contains(&b'?');
    let most = if is_path { 50_000 } else { whole.len() as u64 * 1000 };
    let mut least = u64::MAX;
    for _ in 0..RUNS {
        least = least.min(thread_time(|| (parser.read)(&whole)));
        if least <= most * INSTRUMENTED {
            return;
        }
    }
    panic!("{}: {least} ns for {} bytes", parser.name, whole.len());
});

const RUNS: u32 = 10;
/// The fuzzer's instrumentation makes all of it slower.
const INSTRUMENTED: u64 = 4;
