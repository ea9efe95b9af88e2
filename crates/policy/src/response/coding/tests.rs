//! Every coding, made by independent encoders, cut at every position and broken.

use std::io::Write;

use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use flate2::{Compression, GzBuilder};
use http::HeaderValue;
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::*;

const NAMES: [&str; 5] = ["gzip", "deflate", "raw", "br", "zstd"];

fn encode(name: &str, text: &[u8]) -> Vec<u8> {
    match name {
        "gzip" => {
            let mut encoder =
                GzBuilder::new().filename("page").comment("of a sort").write(Vec::new(), Compression::best());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        "deflate" => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        "raw" => {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        "br" => {
            let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22);
            encoder.write_all(text).unwrap();
            encoder.into_inner()
        }
        "zstd" => compress_to_vec(text, CompressionLevel::Fastest),
        other => panic!("{other}"),
    }
}

fn codings(value: &str) -> Result<Codings, Undecodable> {
    let value = value.replace("raw", "deflate");
    let value = HeaderValue::from_str(&value).unwrap();
    Codings::of(&HeaderMap::from_iter([(CONTENT_ENCODING, value)]))
}

fn undo(value: &str, bytes: &[u8], complete: bool) -> Result<(Vec<u8>, bool), Undecodable> {
    let prefix = codings(value)?.decode_prefix(bytes, complete)?;
    assert!(prefix.bytes.len() <= BodyPrefix::MAX);
    Ok((prefix.bytes.into_owned(), prefix.is_whole))
}

fn page() -> Vec<u8> {
    let lines = (0..300).map(|line| format!("<p id=\"line-{line}\">Sign in, {}</p>\n", line * 7919 % 1000));
    lines.collect::<String>().into_bytes()
}

/// Incompressible bytes.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..length).map(next).collect()
}

#[test]
fn every_coding_is_undone() {
    for name in NAMES {
        for text in [&b""[..], b"a", &page(), &noise(10_000)] {
            assert_eq!(undo(name, &encode(name, text), true), Ok((text.to_vec(), true)), "{name}");
        }
    }
    assert_eq!(undo("identity", b"a", true), Ok((b"a".to_vec(), true)));
    assert_eq!(undo("X-GZip", &encode("gzip", b"a"), true), Ok((b"a".to_vec(), true)));
}

#[test]
fn what_the_reference_encoder_of_zstandard_makes_is_read() {
    let text: String = (0..40).map(|line| format!("<p>Login failed, try {line}</p>\n")).collect();
    assert_eq!(undo("zstd", BY_ZSTD, true), Ok((text.into_bytes(), true)));
}

#[test]
fn several_codings_are_undone_in_turn() {
    for (value, inner, outer) in [("br, gzip", "br", "gzip"), ("deflate,identity,zstd", "deflate", "zstd")] {
        let coded = encode(outer, &encode(inner, &page()));
        assert_eq!(undo(value, &coded, true), Ok((page(), true)), "{value}");
    }
    let mut lines = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static("br"))]);
    lines.append(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    assert_eq!(Codings::of(&lines), codings("br, gzip"));
    assert!(codings("gzip, gzip, gzip, gzip").is_ok());
    assert_eq!(codings("gzip, gzip, gzip, gzip, gzip"), Err(Undecodable));
}

#[test]
fn an_unknown_coding_cannot_be_read() {
    for value in ["compress", "gzip, exi", "utf-8", "none", "gzip;q=1", "*"] {
        assert_eq!(codings(value), Err(Undecodable), "{value}");
    }
}

#[test]
fn a_stream_cut_anywhere_gives_a_beginning_of_its_text() {
    let text = page();
    for name in NAMES {
        let coded = encode(name, &text);
        let mut longest = 0;
        for cut in 0..coded.len() {
            let (found, is_whole) = undo(name, &coded[..cut], false).unwrap();
            assert!(text.starts_with(&found), "{name} at {cut}");
            assert!(!is_whole, "{name} at {cut}");
            assert!(found.len() >= longest, "{name} at {cut} gives less than before");
            longest = found.len();
            if cut > 0 && cut + 9 < coded.len() {
                assert_eq!(
                    undo(name, &coded[..cut], true),
                    Err(Undecodable),
                    "{name} at {cut} is broken off"
                );
            }
        }
        assert!(name == "zstd" || longest > text.len() / 2, "{name} gives only {longest}");
    }
}

#[test]
fn what_an_application_flushed_is_seen_at_once() {
    let (first, second) = (page(), noise(2000));
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&first).unwrap();
    gzip.flush().unwrap();
    let flushed = gzip.get_ref().len();
    gzip.write_all(&second).unwrap();
    assert_eq!(undo("gzip", &gzip.finish().unwrap()[..flushed], false), Ok((first.clone(), false)));

    let mut brotli = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22);
    brotli.write_all(&first).unwrap();
    brotli.flush().unwrap();
    assert_eq!(undo("br", brotli.get_ref(), false), Ok((first.clone(), false)));

    // A block holds up to 128 KiB; so this frame has two, and the first is complete.
    let long = [b"a".repeat(128 * 1024), second].concat();
    let coded = encode("zstd", &long);
    let (text, is_whole) = undo("zstd", &coded[..coded.len() - 1000], false).unwrap();
    assert_eq!((text.len(), is_whole), (BodyPrefix::MAX, false));
}

#[test]
fn members_and_frames_follow_each_other_and_what_follows_them_is_ignored() {
    for name in ["gzip", "zstd"] {
        let two = [encode(name, b"one "), encode(name, b"two")].concat();
        assert_eq!(undo(name, &two, true), Ok((b"one two".to_vec(), true)), "{name}");
    }
    for name in NAMES {
        let followed = [encode(name, b"text"), b"Warning: headers already sent".to_vec()].concat();
        assert_eq!(undo(name, &followed, true), Ok((b"text".to_vec(), true)), "{name}");
    }
    let skippable = [&[0x5A, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &encode("zstd", b"text")].concat();
    assert_eq!(undo("zstd", &skippable, true), Ok((b"text".to_vec(), true)));
}

#[test]
fn bombs_are_stopped_after_as_much_as_is_looked_at() {
    let zeros = vec![0; 4 * 1024 * 1024];
    for name in NAMES {
        let bomb = encode(name, &zeros);
        let bomb = &bomb[..bomb.len().min(BodyPrefix::MAX)];
        let (text, is_whole) = undo(name, bomb, false).unwrap();
        assert_eq!((text.len(), is_whole), (BodyPrefix::MAX, false), "{name}");
    }
    let twice = encode("gzip", &encode("gzip", &zeros));
    assert!(!undo("gzip, gzip", &twice, true).unwrap().1);
}

#[test]
fn as_much_as_is_looked_at_is_read_in_every_coding() {
    let text = noise(3 * BodyPrefix::MAX);
    for name in ["identity", "gzip", "deflate", "raw", "br"] {
        let coded = if name == "identity" { text.clone() } else { encode(name, &text) };
        let (found, is_whole) = undo(name, &coded[..BodyPrefix::MAX], false).unwrap();
        assert!(!is_whole, "{name}");
        assert!(text.starts_with(&found) && found.len() > BodyPrefix::MAX - 1000, "{name}: {}", found.len());
    }
    // An incomplete block is not decoded at all.
    let coded = encode("zstd", &text);
    assert_eq!(undo("zstd", &coded[..BodyPrefix::MAX], false), Ok((Vec::new(), false)));
}

#[test]
fn exactly_as_much_as_is_looked_at_is_whole() {
    for (length, is_whole) in [(BodyPrefix::MAX, true), (BodyPrefix::MAX + 1, false)] {
        let text = vec![b'a'; length];
        for name in NAMES {
            assert_eq!(undo(name, &encode(name, &text), true).unwrap().1, is_whole, "{name} of {length}");
        }
        assert_eq!(undo("identity", &text, true).unwrap().1, is_whole);
    }
}

#[test]
fn nothing_at_all_is_nothing_in_every_coding() {
    for name in NAMES {
        assert_eq!(undo(name, b"", true), Ok((Vec::new(), true)), "{name}");
        assert_eq!(undo(name, b"", false), Ok((Vec::new(), false)), "{name}");
    }
}

#[test]
fn windows_larger_than_http_allows_are_refused() {
    // RFC 8878, section 3.1.1.1.2: an exponent of 14 makes 16 MiB. Then one empty block.
    let frame = |exponent: u8| [0x28, 0xB5, 0x2F, 0xFD, 0, exponent << 3, 1, 0, 0];
    assert_eq!(undo("zstd", &frame(13), true), Ok((Vec::new(), true)));
    assert_eq!(undo("zstd", &frame(14), true), Err(Undecodable));
    // The beginning of a stream with a large window, beyond RFC 7932.
    assert_eq!(undo("br", &[0x11, 30, 0xFF, 0xFF], false), Err(Undecodable));
}

proptest! {
    #[test]
    fn any_text_comes_back(
        text in prop::collection::vec(any::<u8>(), 0..3000), name in prop::sample::select(&NAMES[..]),
    ) {
        prop_assert_eq!(undo(name, &encode(name, &text), true), Ok((text, true)));
    }

    #[test]
    fn a_broken_stream_is_read_or_not_without_a_panic(
        text in "[a-f]{0,200}", name in prop::sample::select(&NAMES[..]),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), complete: bool,
    ) {
        let mut coded = encode(name, text.as_bytes());
        for (at, byte) in flips {
            let at = at.index(coded.len());
            coded[at] = byte;
        }
        let _ = undo(name, &coded, complete);
    }

    #[test]
    fn any_bytes_are_read_or_not_without_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300), name in prop::sample::select(&NAMES[..]), complete: bool,
    ) {
        let _ = undo(name, &bytes, complete);
    }
}

/// `zstd -19 --check`, version 1.5, of forty lines.
#[rustfmt::skip]
const BY_ZSTD: &[u8] = &[
    0x28, 0xB5, 0x2F, 0xFD, 0x04, 0x68, 0x4D, 0x03, 0x00, 0x82, 0x44, 0x0F, 0x11, 0x90, 0x7D, 0x7B,
    0x11, 0xB7, 0x2E, 0xDD, 0x71, 0x60, 0xA1, 0xDF, 0xA4, 0xA8, 0x27, 0x93, 0x34, 0x0E, 0xA0, 0xE1,
    0xC1, 0x56, 0x29, 0xA5, 0x94, 0x52, 0x4A, 0x29, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xEE, 0xEE, 0xEE,
    0xEE, 0xEE, 0x4B, 0x25, 0x74, 0x4C, 0x79, 0x07, 0x0D, 0x0F, 0x46, 0xC2, 0xCE, 0x3A, 0x08, 0x18,
    0x2B, 0x7D, 0x32, 0x58, 0x3A, 0xAF, 0x6B, 0x98, 0x05, 0x27, 0xA8, 0x11, 0xF0, 0xEB, 0x7F, 0x07,
    0x80, 0xA3, 0xE2, 0x03, 0x11, 0xFC, 0xEF, 0x10, 0x0C, 0xF4, 0x03, 0x72, 0x75, 0xDF, 0xA0, 0x46,
    0x19, 0xC5, 0xE8, 0x45, 0x2D, 0xAA, 0x28, 0x45, 0x13, 0x95, 0x28, 0x57, 0x4A, 0x99, 0x00, 0x3B,
    0x10, 0xD5, 0x78, 0xC1, 0xB9, 0xB1,
];
