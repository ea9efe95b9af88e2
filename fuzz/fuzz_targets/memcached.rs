//! What a memcached server says: any bytes, at once and in slices, are read alike or end the reading alike.
//!
//! The first byte of the input is the length of the slices.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::store::memcached::response::{Answer, Answers, BadAnswer, LONGEST_VALUE};

fuzz_target!(|input: &[u8]| {
    let Some((&length, bytes)) = input.split_first() else { return };
    let whole = read(bytes, bytes.len());
    assert_eq!(whole, read(bytes, usize::from(length)));
    for answer in whole.0 {
        if let Answer::Meta { value: Some(value), .. } = answer {
            assert!(value.len() <= LONGEST_VALUE);
        }
    }
});

/// All that can be read, and the mistake at its end if there is one.
fn read(bytes: &[u8], length: usize) -> (Vec<Answer>, Option<BadAnswer>) {
    let mut answers = Answers::default();
    let mut found = Vec::new();
    for slice in bytes.chunks(length.max(1)) {
        answers.feed(slice);
        loop {
            match answers.next_one() {
                Ok(Some(answer)) => found.push(answer),
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}
