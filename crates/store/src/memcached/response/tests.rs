//! Any bytes in any slices, and responses of a real server (1.6.18).

use proptest::prelude::*;

use super::*;

/// All responses, and the error at their end if there is one.
fn read_in(slices: &[&[u8]]) -> (Vec<MemcachedResponse>, Option<BadResponse>) {
    let mut reader = ResponseReader::default();
    let mut found = Vec::new();
    for slice in slices {
        reader.feed(slice);
        loop {
            match reader.next_response() {
                Ok(Some(answer)) => found.push(answer),
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
        assert!(
            reader.bytes.len() - reader.read <= MAX_LINE_LEN + MAX_VALUE_LEN + 4,
            "the reader holds too much"
        );
    }
    (found, None)
}

fn one(bytes: &[u8]) -> MemcachedResponse {
    let (mut found, error) = read_in(&[bytes]);
    assert_eq!((found.len(), error), (1, None));
    found.remove(0)
}

fn bare(code: MetaCode, cas: Option<u64>, opaque: u32) -> MemcachedResponse {
    MemcachedResponse::Meta { code, cas, opaque: Some(opaque), ttl: None, value: None }
}

fn written(answer: &MemcachedResponse) -> Vec<u8> {
    match answer {
        MemcachedResponse::Meta { code, cas, opaque, ttl, value } => {
            let code = match code {
                MetaCode::Done => "HD",
                MetaCode::Value => "VA",
                MetaCode::Miss => "EN",
                MetaCode::NotStored => "NS",
                MetaCode::Exists => "EX",
                MetaCode::NotFound => "NF",
            };
            let mut line = code.to_owned();
            line += &value.as_ref().map(|value| format!(" {}", value.len())).unwrap_or_default();
            line += &cas.map(|cas| format!(" c{cas}")).unwrap_or_default();
            line += &ttl.map(|ttl| format!(" t{ttl}")).unwrap_or_default();
            line += &opaque.map(|opaque| format!(" O{opaque}")).unwrap_or_default();
            let mut bytes = format!("{line}\r\n").into_bytes();
            if let Some(value) = value {
                bytes.extend_from_slice(value);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes
        }
        MemcachedResponse::Stat(name, value) => format!("STAT {name} {value}\r\n").into(),
        MemcachedResponse::End => b"END\r\n".to_vec(),
        MemcachedResponse::Refused(why) => format!("SERVER_ERROR {why}\r\n").into(),
        MemcachedResponse::Misunderstood(why) => format!("CLIENT_ERROR {why}\r\n").into(),
    }
}

fn any_answer() -> impl Strategy<Value = MemcachedResponse> {
    let codes =
        vec![MetaCode::Done, MetaCode::Miss, MetaCode::NotStored, MetaCode::Exists, MetaCode::NotFound];
    let without = (prop::sample::select(codes), any::<Option<u64>>(), any::<Option<u32>>());
    let value = prop::collection::vec(any::<u8>(), 0..200);
    let value = (any::<Option<u64>>(), any::<Option<u32>>(), any::<Option<u64>>(), value);
    prop_oneof![
        without.prop_map(|(code, cas, opaque)| MemcachedResponse::Meta {
            code,
            cas,
            opaque,
            ttl: None,
            value: None
        }),
        value.prop_map(|(cas, opaque, ttl, value)| MemcachedResponse::Meta {
            code: MetaCode::Value,
            cas,
            opaque,
            ttl,
            value: Some(value)
        }),
        ("[a-z_]{1,20}", "[ -~]{0,40}").prop_map(|(name, value)| MemcachedResponse::Stat(name, value)),
        Just(MemcachedResponse::End),
        "[ -~]{0,60}".prop_map(MemcachedResponse::Refused),
        "[ -~]{0,60}".prop_map(MemcachedResponse::Misunderstood),
    ]
}

/// The bytes, cut at these positions.
fn sliced<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    ends.extend([0, bytes.len()]);
    ends.sort_unstable();
    ends.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

#[test]
fn what_a_real_server_says_is_read() {
    assert_eq!(one(b"HD c1 O7\r\n"), bare(MetaCode::Done, Some(1), 7));
    assert_eq!(one(b"NS c0 O7\r\n"), bare(MetaCode::NotStored, Some(0), 7));
    assert_eq!(one(b"EX c0 O7\r\n"), bare(MetaCode::Exists, Some(0), 7));
    assert_eq!(one(b"NF c0 O7\r\n"), bare(MetaCode::NotFound, Some(0), 7));
    assert_eq!(one(b"EN O7\r\n"), bare(MetaCode::Miss, None, 7));
    let value = Some(b"a\r\n".to_vec());
    let found = |ttl| MemcachedResponse::Meta {
        code: MetaCode::Value,
        cas: Some(3),
        opaque: Some(7),
        ttl,
        value: value.clone(),
    };
    assert_eq!(one(b"VA 3 c3 t9 O7\r\na\r\n\r\n"), found(Some(9)));
    assert_eq!(one(b"VA 3 c3 t-1 O7\r\na\r\n\r\n"), found(None));
    assert_eq!(one(b"STAT version 1.6.18\r\n"), MemcachedResponse::Stat("version".into(), "1.6.18".into()));
    assert_eq!(one(b"END\r\n"), MemcachedResponse::End);
    let full = "out of memory storing object";
    assert_eq!(one(format!("SERVER_ERROR {full}\r\n").as_bytes()), MemcachedResponse::Refused(full.into()));
    assert_eq!(
        one(b"CLIENT_ERROR invalid flag\r\n"),
        MemcachedResponse::Misunderstood("invalid flag".into())
    );
    assert_eq!(
        one(b"ERROR Too many open connections\r\n"),
        MemcachedResponse::Refused("Too many open connections".into())
    );
    assert_eq!(one(b"ERROR\r\n"), MemcachedResponse::Misunderstood("ERROR".into()));
}

#[test]
fn what_is_no_answer_ends_the_reading() {
    let line = vec![b'x'; MAX_LINE_LEN + 2];
    let value = format!("VA {} c1\r\n", MAX_VALUE_LEN + 1);
    let mistakes: [(&[u8], BadResponse); 12] = [
        (&line, BadResponse::Line),
        (value.as_bytes(), BadResponse::Value),
        (b"VA 99999999999999999999 c1\r\n", BadResponse::Grammar),
        (b"VA -1 c1\r\n", BadResponse::Grammar),
        (b"VA  c1\r\n", BadResponse::Grammar),
        (b"VA 1 c1\r\nabc", BadResponse::Grammar),
        (b"HD c+1\r\n", BadResponse::Grammar),
        (b"HD O4294967296\r\n", BadResponse::Grammar),
        (b"HD\n", BadResponse::Grammar),
        (b"hd\r\n", BadResponse::Grammar),
        (b"\xff\r\n", BadResponse::Grammar),
        (b"+PONG\r\n", BadResponse::Grammar),
    ];
    for (bytes, mistake) in mistakes {
        let (found, error) = read_in(&[bytes, b"HD\r\n"]);
        assert_eq!((found, error), (Vec::new(), Some(mistake)), "{:?}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn the_longest_line_and_the_longest_value_are_read() {
    let line = format!("STAT a {}\r\n", "x".repeat(MAX_LINE_LEN - 7));
    assert!(matches!(one(line.as_bytes()), MemcachedResponse::Stat(..)));
    let answer = MemcachedResponse::Meta {
        code: MetaCode::Value,
        cas: Some(1),
        opaque: None,
        ttl: None,
        value: Some(vec![7; MAX_VALUE_LEN]),
    };
    assert_eq!(one(&written(&answer)), answer);
}

proptest! {
    #[test]
    fn what_was_written_is_read_in_whatever_slices(
        sent in prop::collection::vec(any_answer(), 0..8),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let bytes: Vec<u8> = sent.iter().flat_map(written).collect();
        prop_assert_eq!(read_in(&sliced(&bytes, &cuts)), (sent, None));
    }

    #[test]
    fn any_bytes_are_read_alike_in_any_slices(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(&b"\r\nVAHD 0123cO"[..])], 0..300),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        prop_assert_eq!(read_in(&[&bytes]), read_in(&sliced(&bytes, &cuts)));
    }
}
