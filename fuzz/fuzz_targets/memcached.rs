//! The responses of a memcached server: any bytes, at once and in slices, are read alike or end the reading alike.
//!
//! The first byte of the input is the length of the slices.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::store::memcached::response::{BadResponse, MAX_VALUE_LEN, MemcachedResponse, ResponseReader};

fuzz_target!(|input: &[u8]| {
    let Some((&length, bytes)) = input.split_first() else { return };
    let whole = read(bytes, bytes.len());
    assert_eq!(whole, read(bytes, usize::from(length)));
    for answer in whole.0 {
        if let MemcachedResponse::Meta { value: Some(value), .. } = answer {
            assert!(value.len() <= MAX_VALUE_LEN);
        }
    }
});

/// All responses, and the error at their end if there is one.
fn read(bytes: &[u8], length: usize) -> (Vec<MemcachedResponse>, Option<BadResponse>) {
    let mut reader = ResponseReader::default();
    let mut found = Vec::new();
    for slice in bytes.chunks(length.max(1)) {
        reader.feed(slice);
        loop {
            match reader.next_response() {
                Ok(Some(answer)) => found.push(answer),
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}
