//! What a table takes of the machine's memory.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use support::in_own_process;
use tollgate::bucket::{Continuous, Distinct, Escalation, Key, Op, PeriodStart, Rolling, Spec};
use tollgate::store::memory::{BucketKey, Buckets};
use tollgate::time::{Span, Time};

const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);
const CLIENTS: u32 = 200_000;

/// One test for all shapes.
#[test]
fn a_client_takes_no_more_than_its_shape_says() {
    in_own_process(|| {
        let (second, hour) = (Span::from_secs(1), Span::from_secs(3600));
        let rolling =
            |quota| Spec::Rolling(Rolling::new(quota, hour.times(24), hour, PeriodStart::First).unwrap());
        let distinct = Distinct::new(Continuous::new(1, hour, 10).unwrap(), Some(200)).unwrap();
        let waits = Escalation::new(1, second, 1, hour).unwrap();
        // Each larger than the one before: room that was freed would be used again, and written to before anybody comes.
        for (spec, least, most) in [
            (Spec::Escalation(waits), 28, 40),
            (rolling(10), 70, 80),
            (Spec::Distinct(distinct), 80, 90),
            // Counts of 32 bits.
            (rolling(100_000), 120, 160),
        ] {
            let taken = bytes_a_client(spec);
            assert!((least..=most).contains(&taken), "{taken} bytes a client: {spec:?}");
        }
    });
}

fn bytes_a_client(spec: Spec) -> usize {
    let before = resident_bytes();
    let buckets = Buckets::new(usize::try_from(CLIENTS).unwrap(), &[spec]).unwrap();
    let touched_by_nobody = resident_bytes() - before;
    // More keys than slots, so that every slot has its bucket.
    for number in 0..u128::from(CLIENTS * 6) {
        let key = Key(number.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835));
        let op = if let Spec::Escalation(_) = spec { Op::Strike } else { Op::Take(1) };
        let _ = buckets.apply(&BucketKey { key, class: 0, spec }, NOW, op).unwrap();
    }
    let (live, capacity) = (buckets.live(NOW), buckets.capacity());
    assert!(live > capacity * 99 / 100, "only {live} of {capacity} are live");
    assert!(touched_by_nobody < 1 << 20, "{touched_by_nobody} bytes before anybody came");
    (resident_bytes() - before) / live
}

/// Without pages of files: code that runs for the first time is none of the table's.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: Vec<usize> = statm.split(' ').map_while(|count| count.parse().ok()).collect();
    (pages[1] - pages[2]) * rustix::param::page_size()
}
