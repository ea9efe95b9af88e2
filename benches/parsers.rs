//! What the slowest accepted input costs in each reader of what a client sends, in microseconds: 8 KiB and 64 KiB.
//!
//! `cargo bench --bench parsers [NAME...]`. The slowest input is searched for among all pairs of the pieces that each
//! reader names.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot be set up has nothing to measure"
)]

#[path = "../tests/bounds/parsers.rs"]
mod parsers;

use parsers::{PARSERS, Parser, TARGETS, thread_time};

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for parser in TARGETS.iter().chain(PARSERS) {
        if wanted.is_empty() || wanted.iter().any(|name| parser.name.starts_with(name.as_str())) {
            [8 * 1024, 64 * 1024]
                .into_iter()
                .filter(|length| *length <= parser.longest)
                .for_each(|length| show(parser, length));
        }
    }
}

fn show(parser: &Parser, length: usize) {
    let fastest =
        |input: &[u8], runs| (0..runs).map(|_| thread_time(|| (parser.read)(input))).min().unwrap_or(0);
    let timed = parser.inputs(length).map(|input| (fastest(&input, 3), input));
    let (_, worst) = timed.max_by_key(|(time, _)| *time).unwrap();
    let time = fastest(&worst, 20);
    let (micros, nanos) = (time / 1000, time * 1000 / worst.len() as u64);
    let shown: String = String::from_utf8_lossy(&worst).escape_debug().take(60).collect();
    println!(
        "{:28}{:7} bytes{micros:8} us{:5}.{:03} ns a byte  {shown}",
        parser.name,
        worst.len(),
        nanos / 1000,
        nanos % 1000
    );
}
