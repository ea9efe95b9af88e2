//! The limit in front of simulated applications, with a simulated clock.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

fn millis(count: u64) -> Span {
    Span::from_millis(count)
}

fn request(is_known: bool, client: u16) -> SlotRequest {
    let [high, low] = client.to_be_bytes();
    SlotRequest { prefix: Some(IpAddr::from([10, 0, high, low])), is_known }
}

/// An application that works on so many requests at once; the others wait inside it, in order.
struct World {
    limit: AdaptiveLimit,
    now: Time,
    latency: Span,
    /// From this client on, the application answers so soon, without one of its slots.
    quick: Option<(u16, Span)>,
    /// When each of its slots is free.
    slots: Vec<Time>,
    events: BTreeMap<(Time, u64), Happening>,
    number: u64,
    waiting: Vec<(u16, Arc<QueuedTurn>)>,
    answered: u64,
    /// The sum of the latencies of `answered`.
    waited: Span,
}

enum Happening {
    /// A client comes, or comes again.
    Comes(u16),
    /// The answer to a client's request sent then.
    Answer(u16, Time),
    /// A client has waited for too long.
    GivesUp(u16, Arc<QueuedTurn>),
}

impl World {
    fn new(slots: usize, latency: Span) -> Self {
        Self {
            limit: AdaptiveLimit::new(),
            now: NOW,
            latency,
            quick: None,
            slots: vec![NOW; slots],
            events: BTreeMap::new(),
            number: 0,
            waiting: Vec::new(),
            answered: 0,
            waited: Span::ZERO,
        }
    }

    /// Clients of which each sends the next request when it has the answer to the last one.
    fn with_clients(mut self, count: u16) -> Self {
        (0..count).for_each(|client| self.at(self.now, Happening::Comes(client)));
        self
    }

    fn at(&mut self, time: Time, happening: Happening) {
        self.number += 1;
        self.events.insert((time, self.number), happening);
    }

    /// Answers within these seconds, and their mean latency at the application in milliseconds.
    fn run(&mut self, seconds: u64) -> (u64, u64) {
        let end = self.now.after(Span::from_secs(seconds));
        (self.answered, self.waited) = (0, Span::ZERO);
        while let Some(((time, _), happening)) = self.events.pop_first() {
            self.now = time;
            self.happens(happening);
            self.send_granted();
            if time >= end {
                break;
            }
        }
        (self.answered, self.waited.as_nanos() / 1_000_000 / self.answered.max(1))
    }

    fn happens(&mut self, happening: Happening) {
        let now = self.now;
        match happening {
            Happening::Comes(client) => match self.limit.enter(request(false, client), now) {
                Ok(SlotEntry::Slot) => self.send(client),
                Ok(SlotEntry::Queued(turn, longest)) => {
                    self.at(now.after(longest), Happening::GivesUp(client, Arc::clone(&turn)));
                    self.waiting.push((client, turn));
                }
                Err(NoSlot(wait)) => self.at(now.after(wait.max(millis(1000))), Happening::Comes(client)),
            },
            Happening::Answer(client, sent) => {
                self.limit.end(request(false, client), SlotEnd::Answered { sent }, now);
                match self.quick.filter(|(first, _)| client >= *first) {
                    // A thousand of them are twenty thousand requests a second.
                    Some(_) => self.at(now.after(millis(45)), Happening::Comes(client)),
                    None => {
                        self.answered += 1;
                        self.waited = self.waited.plus(now.since(sent));
                        self.at(now, Happening::Comes(client));
                    }
                }
            }
            Happening::GivesUp(client, turn) => {
                let is_there = self.waiting.iter().any(|(_, other)| Arc::ptr_eq(other, &turn));
                if is_there && !self.limit.leave_queue(request(false, client), &turn) {
                    self.waiting.retain(|(_, other)| !Arc::ptr_eq(other, &turn));
                    self.at(now.after(millis(1000)), Happening::Comes(client));
                }
            }
        }
    }

    /// Sends what has its slot by now.
    fn send_granted(&mut self) {
        for (client, turn) in std::mem::take(&mut self.waiting) {
            match turn.ended() {
                None => self.waiting.push((client, turn)),
                Some(Ok(())) => self.send(client),
                Some(Err(_)) => self.at(self.now.after(millis(1000)), Happening::Comes(client)),
            }
        }
    }

    fn send(&mut self, client: u16) {
        if let Some((first, latency)) = self.quick
            && client >= first
        {
            return self.at(self.now.after(latency), Happening::Answer(client, self.now));
        }
        let free = self.slots.iter_mut().min().unwrap();
        *free = (*free).max(self.now).after(self.latency);
        let done = *free;
        self.at(done, Happening::Answer(client, self.now));
    }
}

#[test]
fn a_saturated_application_of_any_size_works_at_its_full_rate_with_a_short_queue() {
    // The limit is never below four.
    for (slots, clients, most) in
        [(1, 200, 1010), (2, 200, 600), (4, 1000, 550), (16, 400, 450), (64, 400, 450)]
    {
        let mut world = World::new(slots, millis(250)).with_clients(clients);
        world.run(40);
        let (answered, latency) = world.run(60);
        let full = u64::try_from(slots).unwrap() * 4 * 60;
        assert!(answered * 100 >= full * 95, "{slots} slots: {answered} of {full} answers");
        assert!(latency <= most, "{slots} slots: {latency} ms");
    }
}

#[test]
fn it_learns_within_seconds_of_a_start_under_full_load() {
    let mut world = World::new(4, millis(250)).with_clients(1000);
    let (answered, _) = world.run(10);
    assert!(answered >= 160 * 85 / 100, "{answered}");
    let (_, latency) = world.run(5);
    assert!(latency <= 700, "{latency} ms");
}

#[test]
fn a_fast_application_is_not_held_back() {
    let mut world = World::new(64, millis(1)).with_clients(64);
    world.run(3);
    let (answered, _) = world.run(2);
    assert!(answered >= 2 * 64_000 * 98 / 100, "{answered}");
    assert!(world.limit.figures().limit >= 64, "{:?}", world.limit.figures());
}

#[test]
fn an_application_that_gets_slower_and_faster_again_is_followed() {
    let mut world = World::new(16, millis(250)).with_clients(400);
    for latency in [250, 1000, 100, 500, 50, 250] {
        world.latency = millis(latency);
        world.run(60);
        let (answered, mean) = world.run(60);
        let full = 16 * 60 * 1000 / latency;
        assert!(answered * 100 >= full * 90, "{latency} ms: {answered} of {full} answers");
        assert!(mean <= latency * 3, "{latency} ms: {mean} ms");
    }
}

#[test]
fn an_application_that_gets_fewer_slots_gets_fewer_requests() {
    let mut world = World::new(32, millis(250)).with_clients(400);
    world.run(60);
    world.slots.truncate(4);
    world.run(60);
    let (answered, latency) = world.run(60);
    assert!(answered >= 16 * 60 * 90 / 100 && latency <= 750, "{answered} answers, {latency} ms");
}

/// So that attempts at unknown names, which some applications answer at once, throttle nobody.
#[test]
fn a_flood_of_fast_answers_costs_the_others_little_once_it_is_over() {
    let mut world = World::new(16, millis(250)).with_clients(400);
    world.run(40);
    world.latency = millis(5);
    world.run(20);
    world.latency = millis(250);
    let (answered, _) = world.run(20);
    assert!(answered >= 20 * 64 * 75 / 100, "{answered}");
}

/// Answers from a cache, or to attempts that cost the application nothing.
#[test]
fn a_flood_of_quick_answers_opens_no_way_for_slow_work() {
    let mut world = World::new(4, millis(250)).with_clients(100);
    world.run(40);
    world.quick = Some((100, millis(5)));
    (100..1100).for_each(|client| world.at(world.now, Happening::Comes(client)));
    world.run(20);
    let (_, latency) = world.run(40);
    let figures = world.limit.figures();
    assert!(figures.limit <= 12 && latency <= 700, "{figures:?}, {latency} ms");
}

/// Eighty would have to wait for no longer than anybody notices; slow work among them would wait for ever.
#[test]
fn quick_answers_open_no_more_than_twice_what_the_application_does_at_once() {
    let mut world = World::new(16, millis(2)).with_clients(1000);
    world.run(2);
    let (answered, _) = world.run(1);
    let figures = world.limit.figures();
    assert!((16..=64).contains(&figures.limit) && answered >= 7_700, "{figures:?}, {answered} answers");
}

#[test]
fn an_application_that_became_much_faster_is_measured_again() {
    let mut world = World::new(16, millis(1000)).with_clients(400);
    world.run(40);
    world.latency = millis(100);
    world.slots.resize(64, world.now);
    world.run(50);
    let (answered, latency) = world.run(10);
    assert!(answered >= 64 * 10 * 10 * 90 / 100 && latency <= 250, "{answered} answers, {latency} ms");
}

#[test]
fn a_few_clients_never_wait() {
    let mut world = World::new(4, millis(250)).with_clients(4);
    let (answered, latency) = world.run(60);
    assert!(answered >= 4 * 4 * 60 - 8 && latency == 250, "{answered} answers, {latency} ms");
    assert_eq!(world.limit.figures().refused, 0);
}

/// A probe that slow requests would keep from its end is ended.
#[test]
fn slow_requests_keep_no_stranger_out_for_longer_than_a_probe() {
    let (limit, mut now) = (AdaptiveLimit::new(), NOW);
    let allowed = |is_known| limit.state().gradient.allowed(is_known);
    let all = |now| (0..16).map(|client| limit.enter(request(false, client), now)).for_each(drop);
    for _ in 0..1000 {
        let whole = limit.state().gradient.limit();
        if allowed(false) != whole {
            break;
        }
        all(now);
        let sent = now;
        now = now.after(millis(50));
        (0..16).for_each(|client| limit.end(request(false, client), SlotEnd::Answered { sent }, now));
    }
    let slow = u16::try_from(allowed(false)).unwrap();
    assert!(u32::from(slow) < allowed(true), "it measures the latency without a queue");
    for client in 0..slow {
        assert!(matches!(limit.enter(request(false, client), now), Ok(SlotEntry::Slot)));
    }
    let Ok(SlotEntry::Queued(turn, _)) = limit.enter(request(false, 99), now) else { panic!("it waits") };
    assert!(turn.ended().is_none());
    limit.tick(now.after(Span::from_secs(60)));
    assert!(matches!(turn.ended(), Some(Ok(()))), "it has its turn");
}

/// Fills a limit of which nothing is known.
fn full() -> AdaptiveLimit {
    let limit = AdaptiveLimit::new();
    let most = u16::try_from(limit.figures().limit).unwrap();
    for client in 0..most {
        assert!(matches!(limit.enter(request(false, client), NOW), Ok(SlotEntry::Slot)));
    }
    limit
}

fn queued(limit: &AdaptiveLimit, request: SlotRequest) -> Arc<QueuedTurn> {
    match limit.enter(request, NOW) {
        Ok(SlotEntry::Queued(turn, _)) => turn,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_known_client_is_next_whoever_waits() {
    let limit = full();
    let strangers: Vec<_> = (100..110).map(|client| queued(&limit, request(false, client))).collect();
    let known = queued(&limit, request(true, 200));
    limit.end(request(false, 0), SlotEnd::Unmeasured, NOW);
    assert_eq!(known.ended(), Some(Ok(())));
    assert!(strangers.iter().all(|turn| turn.ended().is_none()));
}

#[test]
fn a_full_queue_of_strangers_keeps_no_known_client_out() {
    let limit = full();
    let mut refused = 0;
    for client in 100..1000 {
        refused += u32::from(limit.enter(request(false, client), NOW).is_err());
    }
    assert!(refused > 500, "{refused}");
    let known = queued(&limit, request(true, 2000));
    limit.end(request(false, 0), SlotEnd::Unmeasured, NOW);
    assert_eq!(known.ended(), Some(Ok(())));
}

#[test]
fn the_slot_of_a_client_that_left_stays_taken_while_the_application_works() {
    let limit = full();
    let next = queued(&limit, request(false, 100));
    limit.end(request(false, 0), SlotEnd::Abandoned { sent: NOW }, NOW.after(millis(1)));
    limit.tick(NOW.after(millis(999)));
    assert!(next.ended().is_none(), "an unknown application is given a second");
    limit.tick(NOW.after(millis(1000)));
    assert_eq!(next.ended(), Some(Ok(())));
}

#[test]
fn a_client_that_leaves_the_queue_frees_its_place_and_gets_no_slot() {
    let limit = full();
    let (first, second) = (queued(&limit, request(false, 100)), queued(&limit, request(false, 101)));
    assert!(!limit.leave_queue(request(false, 100), &first));
    limit.end(request(false, 0), SlotEnd::Unmeasured, NOW);
    assert!(first.ended().is_none() && second.ended() == Some(Ok(())));
    assert!(limit.leave_queue(request(false, 101), &second), "it has a slot to give back");
    assert_eq!(limit.figures().waiting, 0);
}

/// So others need not wait for the slow requests of a client that was alone before.
#[test]
fn one_client_leaves_a_quarter_of_the_slots_to_others() {
    let limit = AdaptiveLimit::new();
    for _ in 0..12 {
        assert!(matches!(limit.enter(request(false, 1), NOW), Ok(SlotEntry::Slot)));
    }
    let waits = queued(&limit, request(false, 1));
    for client in 2..6 {
        assert!(matches!(limit.enter(request(false, client), NOW), Ok(SlotEntry::Slot)), "{client}");
    }
    let next = queued(&limit, request(false, 6));
    limit.end(request(false, 2), SlotEnd::Unmeasured, NOW);
    assert!(waits.ended().is_none() && next.ended() == Some(Ok(())), "it has all that one may have");
    limit.end(request(false, 1), SlotEnd::Unmeasured, NOW);
    assert_eq!(waits.ended(), Some(Ok(())));
}

#[test]
fn clients_without_an_address_are_many() {
    let (limit, nobody) = (AdaptiveLimit::new(), SlotRequest { prefix: None, is_known: false });
    assert!((0..16).all(|_| matches!(limit.enter(nobody, NOW), Ok(SlotEntry::Slot))));
}

#[test]
fn strangers_are_told_to_come_again_one_after_the_other() {
    let limit = full();
    let told = |_| {
        let NoSlot(wait) = limit.refuse(request(false, 100), NOW);
        wait.as_nanos() / 1_000_000
    };
    let waits: Vec<u64> = (0..4).map(told).collect();
    // Sixteen of a second each.
    assert_eq!(waits, [62, 125, 187, 250]);
    assert_eq!((0..5000).map(told).max(), Some(60_000), "within a minute");
    let NoSlot(known) = limit.refuse(request(true, 200), NOW);
    assert_eq!(known.as_nanos() / 1_000_000, 62, "the queue of known ones is short");
}

#[test]
fn a_reload_keeps_what_is_in_flight_and_what_was_learned() {
    let limit = full();
    let after = AdaptiveLimit::new().after(&limit).unwrap();
    assert_eq!(after.figures(), limit.figures());
    limit.end(request(false, 0), SlotEnd::Unmeasured, NOW);
    assert_eq!(after.figures().in_flight + 1, after.figures().limit, "those under way end at either");
}

#[derive(Debug, Clone)]
enum Act {
    Enter(bool, u16),
    Answer(usize),
    Fail(usize),
    Abandon(usize),
    Leave(usize),
    Pass(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (any::<bool>(), 0..6_u16).prop_map(|(is_known, client)| Act::Enter(is_known, client)),
        2 => (0..40_usize).prop_map(Act::Answer),
        1 => (0..40_usize).prop_map(Act::Fail),
        1 => (0..40_usize).prop_map(Act::Abandon),
        1 => (0..40_usize).prop_map(Act::Leave),
        1 => (0..3000_u64).prop_map(Act::Pass),
    ]
}

proptest! {
    #[test]
    fn no_order_of_things_leaves_anything_behind(acts in prop::collection::vec(act(), 1..300)) {
        let limit = AdaptiveLimit::new();
        let (mut now, mut held, mut waiting) = (NOW, Vec::new(), Vec::<(SlotRequest, Arc<QueuedTurn>)>::new());
        for act in acts {
            let end = |limit: &AdaptiveLimit, held: &mut Vec<(SlotRequest, Time)>, at: usize, end: fn(Time) -> SlotEnd| {
                if at < held.len() {
                    let (request, sent) = held.swap_remove(at);
                    limit.end(request, end(sent), now);
                }
            };
            match act {
                Act::Enter(is_known, client) => match limit.enter(request(is_known, client), now) {
                    Ok(SlotEntry::Slot) => held.push((request(is_known, client), now)),
                    Ok(SlotEntry::Queued(turn, _)) => waiting.push((request(is_known, client), turn)),
                    Err(NoSlot(wait)) => prop_assert!(wait <= LONGEST_TOLD),
                },
                Act::Answer(at) => end(&limit, &mut held, at, |sent| SlotEnd::Answered { sent }),
                Act::Fail(at) => end(&limit, &mut held, at, |_| SlotEnd::Unmeasured),
                Act::Abandon(at) => end(&limit, &mut held, at, |sent| SlotEnd::Abandoned { sent }),
                Act::Leave(at) if at < waiting.len() => {
                    let (request, turn) = waiting.swap_remove(at);
                    if limit.leave_queue(request, &turn) {
                        held.push((request, now));
                    }
                }
                Act::Leave(_) => {}
                Act::Pass(time) => {
                    now = now.after(millis(time));
                    limit.tick(now);
                }
            }
            let (granted, others): (Vec<_>, Vec<_>) =
                waiting.into_iter().partition(|(_, turn)| turn.ended() == Some(Ok(())));
            held.extend(granted.into_iter().map(|(request, _)| (request, now)));
            waiting = others.into_iter().filter(|(_, turn)| turn.ended().is_none()).collect();
            let state = limit.state();
            prop_assert_eq!(state.in_flight as usize, held.len() + state.abandoned.len());
            prop_assert_eq!(state.queue.len() as usize, waiting.len());
            prop_assert_eq!(state.of_prefixes.values().sum::<u32>(), state.in_flight);
            let is_in_vain = waiting.iter().any(|(request, _)| state.may_take(*request));
            prop_assert!(!is_in_vain, "nobody waits for nothing");
        }
        for (request, turn) in waiting {
            limit.leave_queue(request, &turn);
        }
        for (request, _) in held {
            limit.end(request, SlotEnd::Unmeasured, now);
        }
        limit.tick(now.after(Span::from_secs(3600)));
        let state = limit.state();
        prop_assert!(state.in_flight == 0 && state.of_prefixes.is_empty() && state.queue.len() == 0);
    }
}
