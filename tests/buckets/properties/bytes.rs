//! A bucket's bytes: they say what was written; others are refused, or are a bucket that does no harm. And numbers:
//! any make a spec or an error, and whatever a spec is asked, and when, it answers.

use proptest::prelude::*;
use tollgate::bucket::{
    Continuous, Distinct, Escalation, Floor, Interval, MAX_RECORD_LEN, Op, Own, PeriodStart, Receipt,
    RecordHeader, Rolling, Spec, SpecError, Time, convert, step,
};
use tollgate::time::Span;

use super::samples::{Dice, cases, of};

type State = [u64; Spec::MAX_WORDS];

/// The ends of what there is, or anything between.
fn extreme(dice: &mut Dice) -> u64 {
    let any = dice.below(u64::MAX);
    [0, 1, 2, u64::MAX, u64::MAX - 1, 1_800_000_000_000_000_000, any, any >> 32][dice.below(8) as usize]
}

fn extreme_half(dice: &mut Dice) -> u32 {
    let any = dice.below(u64::from(u32::MAX)) as u32;
    [0, 1, 2, u32::MAX, u32::MAX - 1, any, any >> 16][dice.below(7) as usize]
}

fn any_state(dice: &mut Dice, spec: &Spec) -> State {
    let mut state = [0; Spec::MAX_WORDS];
    state[..spec.words()].fill_with(|| extreme(dice));
    state
}

fn any_op(dice: &mut Dice) -> Op {
    match dice.below(7) {
        0 => Op::Take(extreme_half(dice)),
        1 => Op::Peek(extreme_half(dice)),
        2 => Op::Give(extreme_half(dice)),
        3 => Op::TakeOnce { tokens: extreme_half(dice), tag: extreme(dice) },
        4 => Op::PeekOnce { tokens: extreme_half(dice), tag: extreme(dice) },
        5 => Op::Strike,
        _ => {
            let full_at = Time::from_nanos(extreme(dice));
            Op::Refund(Receipt { tokens: extreme_half(dice), full_at })
        }
    }
}

/// Whatever the words are and whenever it is asked.
fn answers(dice: &mut Dice, spec: Spec, mut state: State) -> Result<(), TestCaseError> {
    for _ in 0..6 {
        let (now, op) = (Time::from_nanos(extreme(dice)), any_op(dice));
        let mut next = state;
        let step = step(&spec, &mut next[..spec.words()], now, op);
        prop_assert!(step.verdict.left <= spec.burst());
        if step.changed {
            state = next;
        }
    }
    let (to, now) = (dice.any(), Time::from_nanos(extreme(dice)));
    let mut after = [0; Spec::MAX_WORDS];
    convert(&spec, &mut state[..spec.words()], &to, &mut after[..to.words()], now);
    let _ = step(&to, &mut after[..to.words()], Time::from_nanos(extreme(dice)), any_op(dice));
    Ok(())
}

fn any_continuous(dice: &mut Dice) -> Result<Continuous, SpecError> {
    let new = Continuous::new(extreme_half(dice), Span::from_nanos(extreme(dice)), extreme_half(dice))?;
    let new = new.with_initial(extreme_half(dice).min(new.burst()))?.with_debt(extreme_half(dice) >> 8)?;
    new.with_hold(Span::from_nanos(extreme(dice) >> 4))
}

fn any_numbers(dice: &mut Dice) -> Result<Spec, SpecError> {
    let anchor = [PeriodStart::First, PeriodStart::Clock][dice.below(2) as usize];
    match dice.below(5) {
        0 => {
            let (after, factor) = (extreme_half(dice) % 2000, extreme_half(dice) % 200);
            let (wait, max) = (Span::from_nanos(extreme(dice)), Span::from_nanos(extreme(dice)));
            return Escalation::new(after, wait, factor, max).map(Spec::Escalation);
        }
        1 => {
            let repeats = (dice.below(2) == 0).then(|| extreme_half(dice));
            return Distinct::new(any_continuous(dice)?, repeats).map(Spec::Distinct);
        }
        _ => {}
    }
    match any_continuous(dice) {
        Ok(pool) if dice.below(2) == 0 => {
            Floor::new(Continuous::new(1, Span::from_nanos(1 + extreme(dice) / 4), extreme_half(dice))?, pool)
                .map(Spec::Floor)
        }
        Ok(continuous) => Ok(Spec::Continuous(continuous)),
        Err(_) if dice.below(2) == 0 => {
            let new = Interval::new(extreme_half(dice), Span::from_nanos(extreme(dice) >> 3), anchor)?;
            new.with_initial(extreme_half(dice).min(new.quota()))?
                .with_debt(extreme_half(dice))
                .map(Spec::Interval)
        }
        Err(_) => {
            let every = Span::from_nanos(extreme(dice) >> 14);
            let new = Rolling::new(extreme_half(dice), every.times(dice.below(1026)), every, anchor)?;
            let new = if dice.below(2) == 0 { new.with_rate(extreme_half(dice))? } else { new };
            new.with_initial(extreme_half(dice).min(new.burst()))?
                .with_debt(extreme_half(dice))
                .map(Spec::Rolling)
        }
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_was_written_is_read(spec in of(Dice::any), own in any::<Option<u64>>(), seed in any::<u64>()) {
        let written = any_state(&mut Dice(seed), &spec);
        let header = RecordHeader { spec, own_until: own.map(Time::from_nanos) };
        let (mut bytes, mut read) = ([0; MAX_RECORD_LEN], [7; Spec::MAX_WORDS]);
        let length = header.encode(&written, &mut bytes);
        prop_assert_eq!(RecordHeader::decode(&bytes[..length], &mut read), Ok(header));
        prop_assert_eq!(read, written);
        prop_assert!(RecordHeader::decode(&bytes[..length - 1], &mut read).is_err());
        prop_assert!(RecordHeader::decode(&bytes[..=length], &mut read).is_err());
    }

    #[test]
    fn foreign_bytes_are_refused_or_do_no_harm(
        spec in of(Dice::any), changes in prop::collection::vec(any::<u64>(), 1..4), seed in any::<u64>(),
    ) {
        let (mut bytes, mut dice) = ([0; MAX_RECORD_LEN], Dice(seed));
        let state = any_state(&mut dice, &spec);
        let length = RecordHeader { spec, own_until: Some(Time::from_nanos(extreme(&mut dice))) }.encode(&state, &mut bytes);
        for change in changes {
            bytes[change as usize % length] = (change >> 32) as u8;
        }
        let mut state = [0; Spec::MAX_WORDS];
        if let Ok(mut header) = RecordHeader::decode(&bytes[..length], &mut state) {
            answers(&mut dice, header.spec, state)?;
            let (limit, now) = (dice.any(), Time::from_nanos(extreme(&mut dice)));
            let in_force = header.effective_spec(&limit, &mut state, now);
            answers(&mut dice, in_force, state)?;
        }
    }

    #[test]
    fn noise_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..90)) {
        prop_assert!(RecordHeader::decode(&bytes, &mut [0; Spec::MAX_WORDS]).is_err());
    }

    #[test]
    fn any_numbers_make_a_spec_that_answers_or_an_error(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        if let Ok(spec) = any_numbers(&mut dice) {
            let empty = [0; Spec::MAX_WORDS];
            answers(&mut dice, spec, empty)?;
            let state = any_state(&mut dice, &spec);
            answers(&mut dice, spec, state)?;
        }
    }

    #[test]
    fn another_spec_has_another_fingerprint(one in of(Dice::any), two in of(Dice::any)) {
        prop_assert_eq!(one == two, one.fingerprint() == two.fingerprint());
    }

    #[test]
    fn a_rate_of_its_own_decides_until_it_ends(
        limit in of(Dice::any), rate in of(Dice::continuous), taken in 0_u32..20, seed in any::<u64>(),
    ) {
        let (mut dice, mut state) = (Dice(seed), [0; Spec::MAX_WORDS]);
        let now = super::samples::START;
        for _ in 0..taken {
            let mut next = state;
            if step(&limit, &mut next[..limit.words()], now, Op::Take(1)).changed {
                state = next;
            }
        }
        let until = now.after(Span::from_nanos(1 + dice.below(2 * rate.window().as_nanos())));
        let mut header = RecordHeader::of(limit);
        header.give_rate(&limit, Some(Own { rate, until }), &mut state, now);
        let own = match limit {
            Spec::Distinct(once) => Spec::Distinct(Distinct::new(rate, once.repeats()).unwrap()),
            Spec::Escalation(_) | Spec::Recent(_) => limit,
            _ => Spec::Continuous(rate),
        };
        prop_assert_eq!(header.effective_spec(&limit, &mut state, until.before(Span::from_nanos(1))), own);
        let later = until.after(Span::from_nanos(dice.below(limit.max_ttl().as_nanos())));
        let (mut at_once, mut at_leisure) = ((header, state), (header, state));
        prop_assert_eq!(at_once.0.effective_spec(&limit, &mut at_once.1, until), limit);
        prop_assert_eq!(at_leisure.0.effective_spec(&limit, &mut at_leisure.1, later), limit);
        prop_assert_eq!(at_once.1, at_leisure.1, "no attempt came in between");
        header.give_rate(&limit, None, &mut state, now);
        prop_assert_eq!(header, RecordHeader::of(limit));
    }
}
