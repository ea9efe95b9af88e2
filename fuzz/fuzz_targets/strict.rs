//! The bytes of a client: any bytes, at once and in slices, are read alike.
//!
//! The first byte of the input is the length of the slices.

#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use tollgate::proxy::request::decoder::{BodyPart, RequestDecoder};

fuzz_target!(|input: &[u8]| {
    let Some((&length, bytes)) = input.split_first() else { return };
    assert_eq!(read(bytes, bytes.len()), read(bytes, usize::from(length)));
});

/// The bodies of the requests before the first fault, and whether there is one.
fn read(bytes: &[u8], length: usize) -> (Vec<Vec<u8>>, bool) {
    let (mut decoder, mut buffer) = (RequestDecoder::default(), BytesMut::new());
    let (mut bodies, mut is_open) = (Vec::<Vec<u8>>::new(), false);
    for piece in bytes.chunks(length.max(1)) {
        buffer.extend_from_slice(piece);
        loop {
            if !is_open {
                match decoder.read_head(&mut buffer) {
                    Ok(None) => break,
                    Ok(Some(head)) if head.fault.is_none() => bodies.push(Vec::new()),
                    Ok(Some(_)) | Err(_) => return (bodies, true),
                }
                is_open = true;
            }
            match decoder.read_body(&mut buffer) {
                Ok(BodyPart::Piece(piece)) => bodies.last_mut().unwrap().extend_from_slice(&piece),
                Ok(BodyPart::NeedsMore) => break,
                Ok(BodyPart::End) => is_open = false,
                Err(_) => return (bodies, true),
            }
        }
    }
    (bodies, false)
}
