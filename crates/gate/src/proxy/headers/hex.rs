//! Hexadecimal digits in values of headers.

use http::HeaderValue;

/// The value with the digits of these bytes.
#[must_use]
pub fn hex_value(bytes: [u8; 16]) -> HeaderValue {
    let mut digits = [0; 32];
    write_hex(&bytes, &mut digits);
    // Hexadecimal digits are always a header value.
    HeaderValue::from_bytes(&digits).unwrap_or(HeaderValue::from_static("-"))
}

/// Writes two digits for each byte.
pub(super) fn write_hex(bytes: &[u8], digits: &mut [u8]) {
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair[0] = HEX[usize::from(byte >> 4)];
        pair[1] = HEX[usize::from(byte & 15)];
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";
