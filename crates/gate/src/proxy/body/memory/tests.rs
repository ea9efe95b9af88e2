use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

fn owner(last: u8) -> Owner {
    Some(Ipv4Addr::new(192, 0, 2, last).into())
}

fn noop() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn used(memory: &BodyMemory) -> usize {
    let state = memory.state();
    let in_shares: usize = state.shares.values().map(|share| share.used).sum();
    let in_bodies: usize =
        state.shares.values().flat_map(|share| share.bodies.values()).map(|body| body.reserved).sum();
    assert_eq!((in_shares, in_bodies), (state.used, state.used));
    state.used
}

/// Reserves memory for a new body; `None` if it would wait or is refused.
fn begin(memory: &Arc<BodyMemory>, last: u8, bytes: usize) -> Option<MemoryReservation> {
    let mut reservation = memory.reserve(owner(last));
    (reservation.poll_reserve(bytes, &noop()) == Poll::Ready(Ok(()))).then_some(reservation)
}

fn is_evicted(reservation: &MemoryReservation) -> bool {
    reservation.poll_evicted(&noop()).is_ready()
}

#[test]
fn one_client_holds_a_quarter_and_all_of_it_comes_back() {
    let memory = BodyMemory::new(400);
    let reservations: Vec<_> = (0..100).filter_map(|_| begin(&memory, 1, 10)).collect();
    assert_eq!((reservations.len(), used(&memory)), (10, 100));
    let others: Vec<_> = [2, 3, 4]
        .into_iter()
        .flat_map(|last| (0..10).map(move |_| last))
        .filter_map(|last| begin(&memory, last, 10))
        .collect();
    assert_eq!((others.len(), used(&memory)), (30, 400));
    drop((reservations, others));
    assert_eq!(used(&memory), 0);
    assert!(memory.state().shares.is_empty() && memory.state().by_size.is_empty());
}

/// L20: large bodies do not delay small ones, of whatever prefix.
#[test]
fn a_small_body_takes_the_place_of_a_larger_one() {
    let memory = BodyMemory::new(400);
    let large: Vec<_> = (1..=4).filter_map(|last| begin(&memory, last, 100)).collect();
    let same_prefix = begin(&memory, 1, 10).unwrap();
    assert!(is_evicted(&large[0]) && !is_evicted(&same_prefix), "a body of the same prefix is evicted");
    let more = begin(&memory, 5, 90).unwrap();
    assert_eq!(used(&memory), 400);
    let other_prefix = begin(&memory, 6, 10).unwrap();
    assert_eq!(large.iter().filter(|body| is_evicted(body)).count(), 2, "of a prefix that holds most");
    assert!(![&same_prefix, &more, &other_prefix].into_iter().any(is_evicted));
}

#[test]
fn a_body_that_was_read_does_not_give_way() {
    let memory = BodyMemory::new(400);
    let pinned = begin(&memory, 1, 100).unwrap();
    pinned.pin();
    let mut small = memory.reserve(owner(1));
    assert_eq!(small.poll_reserve(10, &noop()), Poll::Pending);
    assert!(!is_evicted(&pinned));
    drop(pinned);
    assert_eq!(small.poll_reserve(10, &noop()), Poll::Ready(Ok(())));
}

#[test]
fn where_all_that_hold_something_wait_the_last_is_refused_and_the_others_are_served() {
    let memory = BodyMemory::new(400);
    let mut reservations: Vec<_> = (0..4).filter_map(|_| begin(&memory, 1, 25)).collect();
    for reservation in &mut reservations[..3] {
        assert_eq!(reservation.poll_reserve(25, &noop()), Poll::Pending);
    }
    assert_eq!(reservations[3].poll_reserve(25, &noop()), Poll::Ready(Err(NoMemory)));
    reservations.pop();
    assert_eq!(reservations[0].poll_reserve(25, &noop()), Poll::Ready(Ok(())), "in turn");
    assert_eq!(reservations[1].poll_reserve(25, &noop()), Poll::Pending);
}

#[test]
fn those_who_wait_for_more_than_one_leaves_do_not_wait_for_ever() {
    let memory = BodyMemory::new(400);
    let mut reservations: Vec<_> =
        [45, 45, 10].into_iter().filter_map(|bytes| begin(&memory, 1, bytes)).collect();
    assert_eq!(reservations[0].poll_reserve(45, &noop()), Poll::Pending);
    assert_eq!(reservations[1].poll_reserve(45, &noop()), Poll::Pending);
    drop(reservations.pop());
    assert_eq!(reservations[0].poll_reserve(45, &noop()), Poll::Ready(Ok(())));
    assert_eq!(reservations[1].poll_reserve(45, &noop()), Poll::Ready(Err(NoMemory)));
}

#[test]
fn what_could_never_fit_is_refused_at_once() {
    let memory = BodyMemory::new(400);
    assert_eq!(memory.reserve(owner(1)).poll_reserve(101, &noop()), Poll::Ready(Err(NoMemory)));
    memory.resize(800);
    assert_eq!(memory.reserve(owner(1)).poll_reserve(101, &noop()), Poll::Ready(Ok(())));
}

/// An action of a client: a body begins, grows, is complete or ends.
#[derive(Debug, Clone)]
enum Step {
    Begins(u8, usize),
    Grows(usize, usize),
    IsRead(usize),
    Ends(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..6_u8, 1..120_usize).prop_map(|(last, bytes)| Step::Begins(last, bytes)),
        (any::<usize>(), 1..120_usize).prop_map(|(which, bytes)| Step::Grows(which, bytes)),
        any::<usize>().prop_map(Step::IsRead),
        any::<usize>().prop_map(Step::Ends),
    ]
}

proptest! {
    /// L20: in any order of steps, no limit is exceeded, the counts are right, and all memory is returned.
    #[test]
    fn no_order_of_things_passes_a_bound_or_leaves_anything_behind(steps in prop::collection::vec(step(), 1..200)) {
        let memory = BodyMemory::new(400);
        let mut reservations: Vec<(MemoryReservation, usize)> = Vec::new();
        for step in steps {
            match step {
                Step::Begins(last, bytes) => reservations.push((memory.reserve(owner(last)), bytes)),
                Step::Grows(which, bytes) if !reservations.is_empty() => {
                    let at = which % reservations.len();
                    if !reservations[at].0.waits {
                        reservations[at].1 = bytes;
                    }
                }
                Step::IsRead(which) if !reservations.is_empty() => {
                    let at = which % reservations.len();
                    if !reservations[at].0.waits {
                        reservations[at].0.pin();
                        reservations[at].1 = 0;
                    }
                }
                Step::Ends(which) if !reservations.is_empty() => {
                    drop(reservations.swap_remove(which % reservations.len()));
                }
                _ => {}
            }
            // Polls as woken tasks do, and those with bytes to reserve.
            reservations.retain_mut(|(reservation, needed)| {
                if *needed == 0 {
                    return true;
                }
                match reservation.poll_reserve(*needed, &noop()) {
                    Poll::Ready(Ok(())) => { *needed = 0; true }
                    Poll::Ready(Err(NoMemory)) => false,
                    Poll::Pending => true,
                }
            });
            prop_assert!(used(&memory) <= 400);
            let state = memory.state();
            for share in state.shares.values() {
                prop_assert!(share.used <= 100);
                let waiting = share.bodies.values().filter(|body| body.awaited > 0 && body.reserved > 0).count();
                prop_assert_eq!(waiting, share.counts.waiting);
                let count = share.bodies.values().filter(|body| body.reserved > 0).count();
                prop_assert_eq!(count, share.counts.count);
            }
        }
        reservations.clear();
        prop_assert_eq!(used(&memory), 0);
        let state = memory.state();
        prop_assert!(state.shares.is_empty() && state.by_size.is_empty());
        let BodyCounts { count, waiting } = state.counts;
        prop_assert_eq!((count, waiting), (0, 0));
    }
}
