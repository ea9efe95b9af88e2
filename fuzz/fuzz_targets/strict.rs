//! What a client sends: any bytes, at once and in slices, are read alike, and what is called clean is.
//!
//! The first byte of the input is the length of the slices.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::proxy::request::validator::{Fault, Scanner};

fuzz_target!(|input: &[u8]| {
    let Some((&length, bytes)) = input.split_first() else { return };
    let (whole, at_once) = read(bytes, bytes.len());
    let (sliced, in_slices) = read(bytes, usize::from(length));
    assert_eq!((whole.request(), at_once.map(number)), (sliced.request(), in_slices.map(number)));
    // Whoever is given what comes before a fault in a body finds none, and no end either.
    if let Some(Fault { clean: Some(clean), request, .. }) = at_once {
        let (before, fault) = read(&bytes[..clean], clean);
        assert_eq!((before.request(), fault), (request, None));
    }
});

fn number(fault: Fault) -> u64 {
    fault.request
}

fn read(bytes: &[u8], length: usize) -> (Scanner, Option<Fault>) {
    let mut scanner = Scanner::new();
    let fault = bytes.chunks(length.max(1)).find_map(|piece| scanner.read(piece).err());
    (scanner, fault)
}
