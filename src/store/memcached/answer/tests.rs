//! Any bytes in any slices, and what a server of 1.6.18 was seen to say.

use proptest::prelude::*;

use super::*;

/// All that can be read, and the mistake at its end if there is one.
fn read_in(slices: &[&[u8]]) -> (Vec<Answer>, Option<BadAnswer>) {
    let mut answers = Answers::default();
    let mut found = Vec::new();
    for slice in slices {
        answers.feed(slice);
        loop {
            match answers.next_one() {
                Ok(Some(answer)) => found.push(answer),
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
        assert!(answers.bytes.len() - answers.read <= LONGEST_LINE + LONGEST_VALUE + 4, "it keeps too much");
    }
    (found, None)
}

fn one(bytes: &[u8]) -> Answer {
    let (mut found, error) = read_in(&[bytes]);
    assert_eq!((found.len(), error), (1, None));
    found.remove(0)
}

fn bare(code: Code, cas: Option<u64>, opaque: u32) -> Answer {
    Answer::Meta { code, cas, opaque: Some(opaque), value: None }
}

fn written(answer: &Answer) -> Vec<u8> {
    match answer {
        Answer::Meta { code, cas, opaque, value } => {
            let code = match code {
                Code::Done => "HD",
                Code::Value => "VA",
                Code::Miss => "EN",
                Code::NotStored => "NS",
                Code::Exists => "EX",
                Code::NotFound => "NF",
            };
            let mut line = code.to_owned();
            line += &value.as_ref().map(|value| format!(" {}", value.len())).unwrap_or_default();
            line += &cas.map(|cas| format!(" c{cas}")).unwrap_or_default();
            line += &opaque.map(|opaque| format!(" O{opaque}")).unwrap_or_default();
            let mut bytes = format!("{line}\r\n").into_bytes();
            if let Some(value) = value {
                bytes.extend_from_slice(value);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes
        }
        Answer::Stat(name, value) => format!("STAT {name} {value}\r\n").into(),
        Answer::End => b"END\r\n".to_vec(),
        Answer::Refused(why) => format!("SERVER_ERROR {why}\r\n").into(),
        Answer::Misunderstood(why) => format!("CLIENT_ERROR {why}\r\n").into(),
    }
}

fn any_answer() -> impl Strategy<Value = Answer> {
    let codes = vec![Code::Done, Code::Miss, Code::NotStored, Code::Exists, Code::NotFound];
    let without = (prop::sample::select(codes), any::<Option<u64>>(), any::<Option<u32>>());
    let value = (any::<Option<u64>>(), any::<Option<u32>>(), prop::collection::vec(any::<u8>(), 0..200));
    prop_oneof![
        without.prop_map(|(code, cas, opaque)| Answer::Meta { code, cas, opaque, value: None }),
        value.prop_map(|(cas, opaque, value)| Answer::Meta {
            code: Code::Value,
            cas,
            opaque,
            value: Some(value)
        }),
        ("[a-z_]{1,20}", "[ -~]{0,40}").prop_map(|(name, value)| Answer::Stat(name, value)),
        Just(Answer::End),
        "[ -~]{0,60}".prop_map(Answer::Refused),
        "[ -~]{0,60}".prop_map(Answer::Misunderstood),
    ]
}

/// The bytes in slices that end at these places.
fn sliced<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    ends.extend([0, bytes.len()]);
    ends.sort_unstable();
    ends.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

#[test]
fn what_a_real_server_says_is_read() {
    assert_eq!(one(b"HD c1 O7\r\n"), bare(Code::Done, Some(1), 7));
    assert_eq!(one(b"NS c0 O7\r\n"), bare(Code::NotStored, Some(0), 7));
    assert_eq!(one(b"EX c0 O7\r\n"), bare(Code::Exists, Some(0), 7));
    assert_eq!(one(b"NF c0 O7\r\n"), bare(Code::NotFound, Some(0), 7));
    assert_eq!(one(b"EN O7\r\n"), bare(Code::Miss, None, 7));
    let value = Some(b"a\r\n".to_vec());
    let found = Answer::Meta { code: Code::Value, cas: Some(3), opaque: Some(7), value };
    assert_eq!(one(b"VA 3 c3 O7\r\na\r\n\r\n"), found);
    assert_eq!(one(b"STAT version 1.6.18\r\n"), Answer::Stat("version".into(), "1.6.18".into()));
    assert_eq!(one(b"END\r\n"), Answer::End);
    let full = "out of memory storing object";
    assert_eq!(one(format!("SERVER_ERROR {full}\r\n").as_bytes()), Answer::Refused(full.into()));
    assert_eq!(one(b"CLIENT_ERROR invalid flag\r\n"), Answer::Misunderstood("invalid flag".into()));
    assert_eq!(
        one(b"ERROR Too many open connections\r\n"),
        Answer::Refused("Too many open connections".into())
    );
    assert_eq!(one(b"ERROR\r\n"), Answer::Misunderstood("ERROR".into()));
}

#[test]
fn what_is_no_answer_ends_the_reading() {
    let line = vec![b'x'; LONGEST_LINE + 2];
    let value = format!("VA {} c1\r\n", LONGEST_VALUE + 1);
    let mistakes: [(&[u8], BadAnswer); 12] = [
        (&line, BadAnswer::Line),
        (value.as_bytes(), BadAnswer::Value),
        (b"VA 99999999999999999999 c1\r\n", BadAnswer::Grammar),
        (b"VA -1 c1\r\n", BadAnswer::Grammar),
        (b"VA  c1\r\n", BadAnswer::Grammar),
        (b"VA 1 c1\r\nabc", BadAnswer::Grammar),
        (b"HD c+1\r\n", BadAnswer::Grammar),
        (b"HD O4294967296\r\n", BadAnswer::Grammar),
        (b"HD\n", BadAnswer::Grammar),
        (b"hd\r\n", BadAnswer::Grammar),
        (b"\xff\r\n", BadAnswer::Grammar),
        (b"+PONG\r\n", BadAnswer::Grammar),
    ];
    for (bytes, mistake) in mistakes {
        let (found, error) = read_in(&[bytes, b"HD\r\n"]);
        assert_eq!((found, error), (Vec::new(), Some(mistake)), "{:?}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn the_longest_line_and_the_longest_value_are_read() {
    let line = format!("STAT a {}\r\n", "x".repeat(LONGEST_LINE - 7));
    assert!(matches!(one(line.as_bytes()), Answer::Stat(..)));
    let answer =
        Answer::Meta { code: Code::Value, cas: Some(1), opaque: None, value: Some(vec![7; LONGEST_VALUE]) };
    assert_eq!(one(&written(&answer)), answer);
}

proptest! {
    #[test]
    fn what_was_written_is_read_in_whatever_slices(
        said in prop::collection::vec(any_answer(), 0..8),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let bytes: Vec<u8> = said.iter().flat_map(written).collect();
        prop_assert_eq!(read_in(&sliced(&bytes, &cuts)), (said, None));
    }

    #[test]
    fn any_bytes_are_read_alike_in_any_slices(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(&b"\r\nVAHD 0123cO"[..])], 0..300),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        prop_assert_eq!(read_in(&[&bytes]), read_in(&sliced(&bytes, &cuts)));
    }
}
