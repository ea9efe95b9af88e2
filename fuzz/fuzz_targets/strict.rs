//! The bytes of a client: any bytes, at once and in slices, are read alike, and what may be forwarded is sound.
//!
//! The first byte of the input is the length of the slices.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::proxy::request::validator::{Validator, Violation};

fuzz_target!(|input: &[u8]| {
    let Some((&length, bytes)) = input.split_first() else { return };
    let (whole, at_once) = read(bytes, bytes.len());
    let (sliced, in_slices) = read(bytes, usize::from(length));
    assert_eq!((whole.request(), at_once.map(number)), (sliced.request(), in_slices.map(number)));
    // What may be forwarded before a violation in a body holds none, and no end either.
    if let Some(Violation { allowed: Some(allowed), request, .. }) = at_once {
        let (before, violation) = read(&bytes[..allowed], allowed);
        assert_eq!((before.request(), violation), (request, None));
    }
});

fn number(violation: Violation) -> u64 {
    violation.request
}

fn read(bytes: &[u8], length: usize) -> (Validator, Option<Violation>) {
    let mut validator = Validator::new();
    let violation = bytes.chunks(length.max(1)).find_map(|piece| validator.read(piece).err());
    (validator, violation)
}
