//! What the slowest accepted input costs in each reader of what a client sends, in microseconds: 8 KiB and 64 KiB, and
//! of bodies 1 KiB, 64 KiB, 1 MiB and 8 MiB.
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
            let lengths: &[usize] = match parser.is_of_bodies() {
                true => &[KIB, 64 * KIB, KIB * KIB, 8 * KIB * KIB],
                false => &[8 * KIB, 64 * KIB],
            };
            let lengths = lengths.iter().filter(|length| parser.is_of_bodies() || **length <= parser.longest);
            lengths.for_each(|length| show(parser, *length));
        }
    }
}

const KIB: usize = 1024;

fn show(parser: &Parser, length: usize) {
    let fastest =
        |input: &[u8], runs| (0..runs).map(|_| thread_time(|| (parser.read)(input))).min().unwrap_or(0);
    // What is slow at 64 KiB is slow at megabytes: a search among those takes long.
    let searched = length.min(64 * KIB);
    let (_, pair) = parser
        .pairs()
        .map(|pair| (fastest(&parser.input(&pair, searched), 3), pair))
        .max_by_key(|(time, _)| *time)
        .unwrap();
    let worst = parser.input(&pair, length);
    let time = fastest(&worst, if length > KIB * KIB { 3 } else { 20 });
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
