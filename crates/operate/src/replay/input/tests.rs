//! Blocks of plain and compressed logs.

use std::io::Write;

use super::*;

/// The lines of some bytes, each with its number.
fn lines(bytes: Vec<u8>) -> Vec<(u64, Vec<u8>)> {
    let log = LogInput { name: "log".to_owned(), bytes: Box::new(Cursor::new(bytes)) };
    let mut reader = BlockReader::new(vec![log]);
    let mut found = Vec::new();
    while let Some(block) = reader.next().unwrap() {
        let text = block.bytes.strip_suffix(b"\n").unwrap_or(&block.bytes);
        found.extend((block.first_line..).zip(text.split(|&byte| byte == b'\n').map(<[u8]>::to_vec)));
    }
    found
}

fn numbered(count: u64) -> Vec<u8> {
    (1..=count).flat_map(|number| format!("line {number} {}\n", "x".repeat(100)).into_bytes()).collect()
}

fn assert_numbered(found: &[(u64, Vec<u8>)], count: u64) {
    assert_eq!(found.len() as u64, count);
    for (number, line) in found {
        assert!(line.starts_with(format!("line {number} ").as_bytes()), "{number}");
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn lines_are_whole_across_blocks_and_keep_their_numbers() {
    assert_numbered(&lines(numbered(50_000)), 50_000);
}

#[test]
fn a_compressed_log_is_known_by_its_content_and_may_have_several_parts() {
    let (one, other) = (numbered(20_000), b"line 20001 without a line feed".as_slice());
    assert_numbered(&lines([gzip(&one), gzip(other)].concat()), 20_001);
    let skippable = b"\x50\x2A\x4D\x18\x03\0\0\0abc".as_slice();
    assert_numbered(&lines([skippable, &zstd(&one), skippable, &zstd(other)].concat()), 20_001);
}

#[test]
fn a_broken_archive_is_an_error_and_not_the_end() {
    for archive in [gzip(&numbered(20_000)), zstd(&numbered(20_000))] {
        let cut = archive[..archive.len() / 2].to_vec();
        let log = LogInput { name: "log".to_owned(), bytes: Box::new(Cursor::new(cut)) };
        let mut reader = BlockReader::new(vec![log]);
        let error = loop {
            match reader.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("half of an archive was taken for all of it"),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().starts_with("log: "), "{error}");
    }
}

#[test]
fn a_line_without_end_is_cut_and_the_next_is_read() {
    let endless = [vec![b'a'; 5 << 20], b"\nline 2 \n".to_vec()].concat();
    let found = lines(endless);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].1.len(), MAX_LINE + 1);
    assert_eq!((found[1].0, &found[1].1[..]), (2, b"line 2 ".as_slice()));
}

#[test]
fn an_empty_log_has_no_lines() {
    assert!(lines(Vec::new()).is_empty());
}
