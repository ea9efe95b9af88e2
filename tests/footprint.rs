//! What a table takes of the machine's memory, in a process of its own: a neighbour's memory would be counted too.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use tollgate::bucket::{Anchor, Key, Op, Rolling, Spec};
use tollgate::store::memory::{Buckets, Place};
use tollgate::time::{Span, Time};

const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);
const CLIENTS: u32 = 200_000;

#[test]
fn a_rolling_window_of_24_periods_takes_at_most_160_bytes_a_client() {
    // Counts of 16 bits, and of 32.
    for (quota, least, most) in [(10, 70, 80), (100_000, 120, 160)] {
        let taken = bytes_a_client(quota);
        assert!((least..=most).contains(&taken), "{taken} bytes a client for a quota of {quota}");
    }
}

fn bytes_a_client(quota: u32) -> usize {
    let hour = Span::from_secs(3600);
    let spec = Spec::Rolling(Rolling::new(quota, hour.times(24), hour, Anchor::First).unwrap());
    let before = resident_bytes();
    let buckets = Buckets::new(usize::try_from(CLIENTS).unwrap(), &[spec]).unwrap();
    let touched_by_nobody = resident_bytes() - before;
    // More keys than slots, so that every slot has its bucket.
    for number in 0..u128::from(CLIENTS * 6) {
        let key = Key(number.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835));
        let _ = buckets.apply(&Place { key, class: 0, spec }, NOW, Op::Take(1)).unwrap();
    }
    let (live, capacity) = (buckets.live(NOW), buckets.capacity());
    assert!(live > capacity * 99 / 100, "only {live} of {capacity} are live");
    assert!(touched_by_nobody < 1 << 20, "{touched_by_nobody} bytes before anybody came");
    (resident_bytes() - before) / live
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
}
