use super::super::tests::TestBucket;
use super::super::{Op, step};
use super::*;

const S: u64 = 1_000_000_000;
const NOW: u64 = 1_800_000_000 * S;

#[test]
fn what_its_own_rate_would_have_brought_after_its_end_does_not_count() {
    let slow = Spec::Continuous(Continuous::new(1, Span::from_secs(3600), 5).unwrap());
    let fast = Continuous::new(5, Span::from_secs(1), 5).unwrap();
    let (mut header, mut bucket) = (RecordHeader::of(slow), TestBucket::new(slow));
    assert!(bucket.take(NOW, 1).is_admitted());
    let until = Time::from_nanos(NOW + 10 * S);
    header.give_rate(&slow, Some(Own { rate: fast, until }), &mut bucket.state, Time::from_nanos(NOW));
    bucket.spec = header.effective_spec(&slow, &mut bucket.state, Time::from_nanos(NOW + 10 * S - 1));
    assert_eq!(bucket.spec, Spec::Continuous(fast));
    assert!(bucket.take(NOW + 10 * S - 1, 5).is_admitted());
    bucket.spec = header.effective_spec(&slow, &mut bucket.state, Time::from_nanos(NOW + 20 * S));
    assert_eq!(
        (bucket.spec, bucket.peek(NOW + 20 * S, 1).left),
        (slow, 0),
        "drained at its end, and slow since"
    );
}

#[test]
fn a_state_is_read_under_a_file_that_its_reader_never_saw() {
    let written = Spec::Interval(Interval::new(10, Span::from_secs(60), PeriodStart::First).unwrap());
    let mut bucket = TestBucket::new(written);
    assert!(bucket.take(NOW, 5).is_admitted());
    let mut bytes = [0; MAX_RECORD_LEN];
    let length = RecordHeader::of(written).encode(&bucket.state, &mut bytes);
    let mut state = [0; Spec::MAX_WORDS];
    let mut header = RecordHeader::decode(&bytes[..length], &mut state).unwrap();
    let limit = Spec::Interval(Interval::new(4, Span::from_secs(60), PeriodStart::First).unwrap());
    let now = Time::from_nanos(NOW + S);
    assert_eq!(header.effective_spec(&limit, &mut state, now), limit);
    assert_eq!(step(&limit, &mut state[..limit.words()], now, Op::Peek(1)).verdict.left, 2);
}

/// A spec, and the bytes of a bucket.
type Golden = (Spec, [&'static str; 4]);

fn golden() -> [Golden; 7] {
    let ([one, two, three, four], [five, six, seven]) = (golden_of_tokens(), golden_of_attempts());
    [one, two, three, four, five, six, seven]
}

/// A bucket of each shape with tokens only, after twelve were taken, with its bytes: version and shape, fingerprint,
/// spec, state.
fn golden_of_tokens() -> [Golden; 4] {
    let (minute, hour) = (Span::from_secs(60), Span::from_secs(3600));
    let second = |count, burst| Continuous::new(count, Span::from_secs(1), burst).unwrap();
    let continuous = Continuous::new(10, minute, 20).unwrap().with_initial(15).unwrap();
    let continuous = continuous.with_debt(5).unwrap().with_hold(Span::from_secs(2)).unwrap();
    let interval = Interval::new(60, minute, PeriodStart::Clock).unwrap();
    let rolling = Rolling::new(100, hour.times(4), hour, PeriodStart::First).unwrap().with_rate(30).unwrap();
    let pool = second(1, 100).with_initial(90).unwrap().with_debt(4).unwrap();
    [
        (
            Spec::Continuous(continuous),
            [
                "0101",
                "8beb2440",
                "0000000165a0bc00 00000014 0000000f 00000005 0000000077359400",
                "18fae28e53607c00",
            ],
        ),
        (
            Spec::Interval(interval.with_initial(50).unwrap().with_debt(7).unwrap()),
            [
                "0102",
                "0df6f545",
                "0000000df8475800 0000003c 00000032 00000007 01",
                "18fae2848bfb5800 0000000000000016",
            ],
        ),
        (
            Spec::Rolling(rolling.with_initial(20).unwrap().with_debt(3).unwrap()),
            [
                "0103",
                "9b42a6a5",
                "00000d18c2e28000 0000034630b8a000 00000064 0000001e 00000014 00000003 00",
                "18faef8f56968000 18fae27693b40000 000a000c00000000 0000000000000000",
            ],
        ),
        (
            Spec::Floor(Floor::new(second(10, 10), pool).unwrap()),
            [
                "0104",
                "b6fa4445",
                "0000000005f5e100 0000000a 0000000a 00000000 0000000000000000 \
                 000000003b9aca00 00000064 0000005a 00000004 0000000000000000",
                "18fae2795ef57800 18fae2795ef57800 18fae276cf4eca00",
            ],
        ),
    ]
}

/// The shapes that remember attempts: a tag was charged and repeated after twelve tokens were taken, seven attempts
/// failed, and a tag was seen.
fn golden_of_attempts() -> [Golden; 3] {
    let bucket = Continuous::new(10, Span::from_secs(60), 20).unwrap().with_initial(15).unwrap();
    [
        (
            Spec::Distinct(Distinct::new(bucket, Some(200)).unwrap()),
            [
                "0105",
                "8584bd76",
                "0000000165a0bc00 00000014 0000000f 00000000 0000000000000000 01 000000c8",
                "18fae28fb9013800 0000000000000001 0123456700000000 0000000000000000 0000000000000000 \
                 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
            ],
        ),
        (
            Spec::Escalation(Escalation::new(5, Span::from_secs(30), 2, Span::from_secs(3600)).unwrap()),
            [
                "0106",
                "789113ae",
                "00000006fc23ac00 0000034630b8a000 00000005 00000002",
                "18fae5c3c0904c00 18fae27d8fd7ac00 0000000100000002",
            ],
        ),
        (
            Spec::Recent(Recent::new(Span::from_secs(86_400)).unwrap()),
            [
                "0107",
                "00ac8970",
                "00004e94914f0000",
                "18fb310b25030000 0123456701c9c380 0000000000000000 0000000000000000 0000000000000000 \
                 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 \
                 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 \
                 0000000000000000 0000000000000000",
            ],
        ),
    ]
}

fn encoded(header: RecordHeader) -> Vec<u8> {
    let mut bucket = TestBucket::new(header.spec);
    assert!(bucket.take(NOW, 12).is_admitted());
    match header.spec {
        Spec::Distinct(_) => {
            let once = Op::TakeOnce { tokens: 1, tag: 0x0123_4567_0000_0000 };
            assert!((0..2).all(|_| bucket.run(NOW, once).verdict.is_admitted()));
        }
        Spec::Escalation(_) => {
            for _ in 0..7 {
                let _ = bucket.run(NOW, Op::Strike);
            }
        }
        Spec::Recent(_) => {
            let _ = bucket.run(NOW, Op::TakeOnce { tokens: 1, tag: 0x0123_4567_0000_0000 });
        }
        _ => {}
    }
    let mut bytes = [0; MAX_RECORD_LEN];
    let length = header.encode(&bucket.state, &mut bytes);
    bytes[..length].to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Other gates read these bytes: a change of them needs another `LAYOUT`.
#[test]
fn the_bytes_of_every_shape_are_these() {
    for (spec, parts) in golden() {
        let [shape, fingerprint, written_spec, state] = parts.map(|part| part.replace(' ', ""));
        let bytes = encoded(RecordHeader::of(spec));
        assert_eq!(hex(&bytes), format!("{shape}{fingerprint}{written_spec}{state}"));
        let own_until = Some(Time::from_nanos(NOW + 900 * S));
        let own_shape = shape.replace("010", "018");
        let bytes = encoded(RecordHeader { spec, own_until });
        assert_eq!(
            hex(&bytes),
            format!("{own_shape}{fingerprint}18fae3481fe22800{written_spec}{state}"),
            "with its own rate"
        );
    }
}

#[test]
fn bytes_that_were_cut_short_are_refused() {
    for (spec, _) in golden() {
        let bytes = encoded(RecordHeader { spec, own_until: Some(Time::from_nanos(NOW)) });
        for length in 0..bytes.len() {
            let cut = RecordHeader::decode(&bytes[..length], &mut [0; Spec::MAX_WORDS]);
            assert_eq!(cut, Err(DecodeError::Length), "{length} of {}", bytes.len());
        }
    }
}

#[test]
fn no_flipped_bit_makes_another_promise() {
    for (spec, _) in golden() {
        let good = encoded(RecordHeader::of(spec));
        let state_from = good.len() - 8 * spec.words();
        for bit in 0..8 * good.len() {
            let (mut bytes, mut state) = (good.clone(), [0; Spec::MAX_WORDS]);
            bytes[bit / 8] ^= 1 << (bit % 8);
            match RecordHeader::decode(&bytes, &mut state) {
                Ok(header) => {
                    assert!(bit / 8 >= state_from, "bit {bit} of {spec:?}");
                    assert_eq!(header, RecordHeader::of(spec));
                    let _ = step(&spec, &mut state[..spec.words()], Time::from_nanos(NOW), Op::Take(1));
                }
                Err(_) => assert!(bit / 8 < state_from, "bit {bit} of {spec:?}"),
            }
        }
    }
}
