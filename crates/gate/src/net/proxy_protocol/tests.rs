use proptest::prelude::*;

use super::*;

/// The client that these bytes name, if they are exactly one header of this version.
fn read(bytes: &[u8], version: ProxyProtocolVersion) -> Result<Option<String>, MalformedProxyHeader> {
    assert_eq!(end(bytes, version)?, Some(bytes.len()), "{bytes:?}");
    Ok(source(bytes)?.map(|source| source.to_string()))
}

fn line(text: &str) -> Result<Option<String>, MalformedProxyHeader> {
    read(text.as_bytes(), ProxyProtocolVersion::V1)
}

fn block(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[command, family], &length, content].concat()
}

/// A header from 198.51.100.7, with these fields.
fn with_fields(fields: &[u8]) -> Vec<u8> {
    block(PROXY, 0x11, &[&[198, 51, 100, 7, 10, 0, 0, 1, 0x10, 0x92, 0, 80], fields].concat())
}

#[test]
fn a_line_names_who_connected() {
    for (text, named) in [
        ("PROXY TCP4 198.51.100.7 10.0.0.1 4242 80\r\n", Some("198.51.100.7:4242")),
        ("PROXY TCP6 2001:db8::7 2001:db8::1 4242 80\r\n", Some("[2001:db8::7]:4242")),
        ("PROXY TCP6 ::ffff:198.51.100.7 ::1 4242 80\r\n", Some("198.51.100.7:4242")),
        ("PROXY UNKNOWN\r\n", None),
        ("PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n", None),
    ] {
        assert_eq!(line(text), Ok(named.map(str::to_owned)), "{text}");
    }
}

#[test]
fn a_line_that_is_not_quite_one_is_none() {
    for text in [
        "PROXY TCP4 198.51.100.7 10.0.0.1 4242 80\n",
        "PROXY TCP4 198.51.100.7 10.0.0.1 4242\r\n",
        "PROXY TCP4 198.51.100.7 10.0.0.1 4242 80 \r\n",
        "PROXY TCP4 198.51.100.7  10.0.0.1 4242 80\r\n",
        "PROXY TCP4 198.51.100.7 10.0.0.1 +242 80\r\n",
        "PROXY TCP4 198.51.100.7 10.0.0.1 65536 80\r\n",
        "PROXY TCP4 198.51.100.07 10.0.0.1 4242 80\r\n",
        "PROXY TCP4 2001:db8::7 2001:db8::1 4242 80\r\n",
        "PROXY TCP6 198.51.100.7 10.0.0.1 4242 80\r\n",
        "PROXY TCP6 fe80::7%eth0 2001:db8::1 4242 80\r\n",
        "PROXY UDP4 198.51.100.7 10.0.0.1 4242 80\r\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY UNKNOWN\n",
        "PROXY \r\n",
    ] {
        assert_eq!(line(text), Err(MalformedProxyHeader), "{text}");
    }
}

/// C13: a line of 107 bytes is the longest that the protocol has.
#[test]
fn a_line_that_goes_on_for_too_long_is_not_waited_for() {
    let line = |length: usize| format!("PROXY UNKNOWN {}\r\n", "f".repeat(length - 16)).into_bytes();
    assert_eq!(read(&line(107), ProxyProtocolVersion::Any), Ok(None));
    assert_eq!(end(&line(108), ProxyProtocolVersion::Any), Err(MalformedProxyHeader));
    assert_eq!(end(&line(107)[..105], ProxyProtocolVersion::Any), Ok(None), "the rest may still come");
    assert_eq!(
        end(&line(200)[..107], ProxyProtocolVersion::Any),
        Err(MalformedProxyHeader),
        "nothing could end it in time"
    );
}

#[test]
fn what_cannot_become_a_header_is_told_by_the_first_wrong_byte() {
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"\x16\x03\x01", b"\0", b"PROXZ", b"PROXYT", b"\r\n\r\nG"] {
        let wrong = bytes.iter().position(|byte| !b"PROXY\r\n".contains(byte)).unwrap();
        assert_eq!(end(&bytes[..wrong], ProxyProtocolVersion::Any), Ok(None), "{bytes:?}");
        assert_eq!(end(&bytes[..=wrong], ProxyProtocolVersion::Any), Err(MalformedProxyHeader), "{bytes:?}");
    }
    let third = [SIGNATURE, &[0x31, 0x11]].concat();
    assert_eq!(end(&third, ProxyProtocolVersion::Any), Err(MalformedProxyHeader), "there is no version 3");
}

#[test]
fn only_the_version_that_is_wanted_is_read() {
    let (line, block) = (b"PROXY UNKNOWN\r\n", block(LOCAL, 0, b""));
    for (version, takes_line, takes_block) in [
        (ProxyProtocolVersion::V1, true, false),
        (ProxyProtocolVersion::V2, false, true),
        (ProxyProtocolVersion::Any, true, true),
    ] {
        assert_eq!((end(line, version).is_ok(), end(&block, version).is_ok()), (takes_line, takes_block));
    }
}

#[test]
fn a_block_names_who_connected() {
    let v6 = [[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]; 2].concat();
    let v6 = [&v6[..], &[0x10, 0x92, 0, 80]].concat();
    let mapped = [&[0; 10][..], &[0xff, 0xff, 198, 51, 100, 7], &[0; 16], &[0x10, 0x92, 0, 80]].concat();
    for (bytes, named) in [
        (with_fields(b""), Some("198.51.100.7:4242")),
        (with_fields(b"\x02\0\x03abc\x04\0\0"), Some("198.51.100.7:4242")),
        (block(PROXY, 0x21, &v6), Some("[2001:db8::7]:4242")),
        (block(PROXY, 0x21, &mapped), Some("198.51.100.7:4242")),
        (block(PROXY, 0x31, &[b'/'; 216]), None),
        (block(PROXY, 0, b""), None),
        (block(PROXY, 0, b"whatever"), None),
    ] {
        assert_eq!(read(&bytes, ProxyProtocolVersion::V2), Ok(named.map(str::to_owned)), "{bytes:?}");
    }
}

/// C13: a `LOCAL` header names no client, whatever else is in it.
#[test]
fn of_a_local_header_nothing_is_read() {
    for (family, content) in
        [(0, &b""[..]), (0x11, b"short"), (0x11, b""), (0x77, b"\x03\0\x04abcd"), (0x21, &[9; 99])]
    {
        assert_eq!(read(&block(LOCAL, family, content), ProxyProtocolVersion::Any), Ok(None));
    }
}

/// C13: a length that lies, in either direction.
#[test]
fn a_block_of_a_wrong_length_is_none() {
    for (family, content) in
        [(0x11, 11), (0x12, 0), (0x21, 35), (0x31, 215), (0x13, 12), (0x41, 36), (0xf1, 300)]
    {
        assert_eq!(
            read(&block(PROXY, family, &vec![0; content]), ProxyProtocolVersion::Any),
            Err(MalformedProxyHeader),
            "{family}"
        );
    }
    let whole = |length: usize| block(PROXY, 0, &vec![0; length - 16]);
    assert_eq!(read(&whole(4096), ProxyProtocolVersion::Any), Ok(None));
    assert_eq!(
        end(&whole(4097)[..16], ProxyProtocolVersion::Any),
        Err(MalformedProxyHeader),
        "it is not waited for"
    );
}

/// C13: fields that end behind the header, or leave something over.
#[test]
fn fields_that_do_not_fit_are_refused() {
    for fields in
        [&b"\x02"[..], b"\x02\0", b"\x02\0\x0a12345", b"\x02\0\x041234\x05", b"\x02\xff\xff", b"\0\0"]
    {
        assert_eq!(
            read(&with_fields(fields), ProxyProtocolVersion::Any),
            Err(MalformedProxyHeader),
            "{fields:?}"
        );
    }
}

/// C13: a checksum is verified, wherever it is.
#[test]
fn a_wrong_checksum_is_refused() {
    let fields = |sum: &[u8]| [b"\x02\0\x03abc\x03\0\x04", sum, b"\x04\0\x02!!"].concat();
    // By the bitwise definition, RFC 3720 B.4, and not by the crate.
    let sum = with_fields(&fields(&[0; 4])).iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| sum >> 1 ^ (0x82f6_3b78 & (sum & 1).wrapping_neg()))
    });
    let right = with_fields(&fields(&(!sum).to_be_bytes()));
    assert_eq!(read(&right, ProxyProtocolVersion::Any), Ok(Some("198.51.100.7:4242".to_owned())));
    // All but the byte that announces the checksum.
    for at in (16..right.len()).chain([13]).filter(|at| *at != 34) {
        let mut wrong = right.clone();
        wrong[at] ^= 1;
        assert_eq!(source(&wrong), Err(MalformedProxyHeader), "byte {at}");
    }
    let twice = [fields(&(!sum).to_be_bytes()), b"\x03\0\x04abcd".to_vec()].concat();
    assert_eq!(read(&with_fields(&twice), ProxyProtocolVersion::Any), Err(MalformedProxyHeader));
    for sum in [&b""[..], b"abc", b"abcde"] {
        let length = u8::try_from(sum.len()).unwrap();
        let field = [&[3, 0, length], sum].concat();
        assert_eq!(
            read(&with_fields(&field), ProxyProtocolVersion::Any),
            Err(MalformedProxyHeader),
            "{sum:?}"
        );
    }
}

proptest! {
    #[test]
    fn whatever_comes_is_read_without_a_panic_and_in_pieces_as_at_once(
        beginning in prop_oneof![Just(&b"PROXY TCP4 "[..]), Just(SIGNATURE), Just(&b"PROXY UNKNOWN "[..]), Just(&b""[..])],
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let bytes = [beginning, &bytes].concat();
        let whole = end(&bytes, ProxyProtocolVersion::Any);
        for length in 0..bytes.len() {
            match (end(&bytes[..length], ProxyProtocolVersion::Any), whole) {
                (Ok(None), _) => {}
                (Ok(Some(end)), whole) => prop_assert_eq!(Ok(Some(end)), whole),
                (Err(MalformedProxyHeader), whole) => prop_assert_eq!(Err(MalformedProxyHeader), whole),
            }
        }
        let _ = source(&bytes);
        if let Ok(Some(end)) = whole {
            prop_assert!(end <= bytes.len());
            let _ = source(&bytes[..end]);
        }
    }
}
