//! The rules of one moment: limits of every shape on a ladder of prefixes, drawn by lot, and how they change.
//!
//! Clients are told apart by their addresses alone, and which spec a client has under a limit is worked out here a
//! second time, so that the gate's own answer is checked.

use std::net::IpAddr;

use ipnet::IpNet;
use tollgate::bucket::{Continuous, Floor, Interval, PeriodStart, Rolling, Spec};
use tollgate::policy::key::PrefixLengths;
use tollgate::policy::{Limit, Mode, Policy};
use tollgate::time::Span;

use support::dice::Dice;
use support::policy::{limit, route};

/// What is in force from one reload to the next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rules {
    /// In the order of the file.
    pub(crate) limits: Vec<Drawn>,
}

/// One limit as it was drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Drawn {
    pub(crate) rung: Rung,
    pub(crate) spec: Spec,
    /// What the office has instead; `None` is "off".
    pub(crate) office: Option<Spec>,
    /// Whether the networks of the monitoring are exempt.
    pub(crate) exempts: bool,
    pub(crate) mode: Mode,
}

/// A limit's name, how wide its buckets are, and about how many tokens they hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rung {
    pub(crate) name: &'static str,
    pub(crate) ipv4: u8,
    pub(crate) ipv6: u8,
    size: u32,
}

/// Whose bucket it is: the limit, whether it is the office's class, and the prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) limit: &'static str,
    pub(crate) of_office: bool,
    pub(crate) prefix: IpNet,
}

pub(crate) const LADDER: [Rung; 6] = [
    Rung { name: "address", ipv4: 32, ipv6: 64, size: 6 },
    Rung { name: "daily", ipv4: 32, ipv6: 64, size: 30 },
    Rung { name: "subnet", ipv4: 24, ipv6: 48, size: 20 },
    Rung { name: "shadow", ipv4: 24, ipv6: 48, size: 10 },
    Rung { name: "wide", ipv4: 16, ipv6: 32, size: 60 },
    Rung { name: "later", ipv4: 32, ipv6: 64, size: 12 },
];

impl Rules {
    /// All but the last limit, which a reload may add.
    pub(crate) fn drawn(dice: &mut Dice) -> Self {
        Self { limits: LADDER[..5].iter().map(|rung| Drawn::by_lot(*rung, dice)).collect() }
    }

    /// After an edit of the file: numbers, shapes, rates of the office, modes, limits added and removed, or
    /// nothing at all.
    pub(crate) fn edited(&self, dice: &mut Dice) -> Self {
        let mut next = self.clone();
        for _ in 0..dice.within(1..4) {
            let count = next.limits.len();
            let at = usize::try_from(dice.within(0..count as u64)).unwrap();
            let drawn = &mut next.limits[at];
            match dice.within(0..8) {
                0 => {}
                1 => drawn.office = dice.once_in(2).then(|| spec(drawn.rung.size * 2, dice)),
                2 if drawn.rung.name != "shadow" => {
                    drawn.mode = dice.pick(&[Mode::Enforce, Mode::Enforce, Mode::Observe, Mode::Off]);
                }
                3 => drawn.exempts = !drawn.exempts,
                4 if count > 3 => drop(next.limits.remove(at)),
                5 => next.add_what_is_missing(dice),
                _ => drawn.spec = spec(drawn.rung.size, dice),
            }
        }
        next
    }

    fn add_what_is_missing(&mut self, dice: &mut Dice) {
        let is_missing = |rung: &&Rung| self.limits.iter().all(|drawn| drawn.rung.name != rung.name);
        if let Some(rung) = LADDER.iter().find(is_missing) {
            let at = usize::try_from(dice.within(0..self.limits.len() as u64 + 1)).unwrap();
            self.limits.insert(at, Drawn::by_lot(*rung, dice));
        }
    }

    pub(crate) fn policy(&self) -> Policy {
        let all: Vec<usize> = (0..self.limits.len()).collect();
        let routes = vec![route("login", 1, all.clone()), route("batch", 3, all)];
        Policy::new(routes, self.limits.iter().map(Drawn::limit).collect())
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Drawn> {
        self.limits.iter().find(|drawn| drawn.rung.name == name)
    }
}

impl Drawn {
    fn by_lot(rung: Rung, dice: &mut Dice) -> Self {
        Self {
            rung,
            spec: spec(rung.size, dice),
            office: dice.once_in(2).then(|| spec(rung.size * 2, dice)),
            exempts: dice.once_in(2),
            mode: if rung.name == "shadow" { Mode::Observe } else { Mode::Enforce },
        }
    }

    /// The bucket of a client and what it promises; `None` if the limit does not see it.
    pub(crate) fn bucket_of(&self, client: IpAddr) -> Option<(Owner, Spec)> {
        let within = |networks: [&str; 2]| networks.map(network).iter().any(|net| net.contains(&client));
        if self.mode == Mode::Off || (self.exempts && within(MONITORING)) {
            return None;
        }
        let of_office = within(OFFICE);
        let length = if client.is_ipv4() { self.rung.ipv4 } else { self.rung.ipv6 };
        let prefix = IpNet::new(client, length).unwrap().trunc();
        let spec = if of_office { self.office } else { Some(self.spec) };
        Some((Owner { limit: self.rung.name, of_office, prefix }, spec?))
    }

    fn limit(&self) -> Limit {
        let mut limit = limit(self.rung.name, self.spec);
        limit.prefixes = PrefixLengths { ipv4: self.rung.ipv4, ipv6: self.rung.ipv6 };
        limit.mode = self.mode;
        let class = limit.rates.add("office", self.office);
        OFFICE.iter().for_each(|office| limit.rates.insert_network(network(office), class));
        if self.exempts {
            limit.exempt = MONITORING.map(network).into_iter().collect();
        }
        limit
    }
}

/// A spec of any shape with about so many tokens.
///
/// An interval whose periods begin with the first attempt has neither debt nor a start balance here: with them a
/// refused attempt may begin a period, and the admitted attempts alone do not show where the periods lie.
fn spec(size: u32, dice: &mut Dice) -> Spec {
    let size = dice.tokens(size * 2 / 3..size * 2);
    let anchor = dice.pick(&[PeriodStart::First, PeriodStart::Clock]);
    match dice.within(0..4) {
        0 => Spec::Continuous(continuous(size, dice)),
        1 => {
            let interval =
                Interval::new(size, dice.pick(&[MINUTE, MINUTE.times(15), HOUR, DAY]), anchor).unwrap();
            Spec::Interval(match anchor {
                PeriodStart::First => interval,
                PeriodStart::Clock => {
                    let (initial, debt) = (rarely(dice, size / 2, size), sometimes(dice, size / 3, 0));
                    interval.with_initial(initial).unwrap().with_debt(debt).unwrap()
                }
            })
        }
        2 => {
            let (periods, period) =
                dice.pick(&[(24, HOUR), (12, MINUTE.times(5)), (16, MINUTE.times(15)), (7, DAY)]);
            let rolling = Rolling::new(size, period.times(periods), period, anchor).unwrap();
            let rate = sometimes(dice, (size / 2).max(3), size);
            let rolling = rolling.with_rate(rate).unwrap();
            let (initial, debt) = (rarely(dice, rate / 2, rate), sometimes(dice, size / 3, 0));
            Spec::Rolling(rolling.with_initial(initial).unwrap().with_debt(debt).unwrap())
        }
        _ => {
            let floor = Continuous::new(1, dice.pick(&[MINUTE, HOUR]), dice.tokens(1..3)).unwrap();
            Spec::Floor(Floor::new(floor, continuous(size, dice)).unwrap())
        }
    }
}

fn continuous(size: u32, dice: &mut Dice) -> Continuous {
    let period = dice.pick(&[MINUTE, MINUTE.times(5), HOUR, HOUR.times(8), DAY]);
    let bucket = Continuous::new(dice.tokens(1..size + 1), period, size).unwrap();
    let bucket = bucket.with_initial(rarely(dice, size / 2, size)).unwrap();
    let bucket = bucket.with_debt(sometimes(dice, size / 3, 0)).unwrap();
    bucket.with_hold(sometimes(dice, Span::from_secs(10), Span::ZERO)).unwrap()
}

fn sometimes<T>(dice: &mut Dice, now_and_then: T, usually: T) -> T {
    if dice.once_in(3) { now_and_then } else { usually }
}

/// So rarely that often enough no limit has it: the world says why.
fn rarely<T>(dice: &mut Dice, now_and_then: T, usually: T) -> T {
    if dice.once_in(8) { now_and_then } else { usually }
}

fn network(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// Only the office is in its widest prefix; the same holds for the monitoring.
pub(crate) const OFFICE: [&str; 2] = ["198.51.100.0/24", "2001:db8:42::/48"];
pub(crate) const MONITORING: [&str; 2] = ["203.0.113.0/24", "2001:db9:43::/48"];

pub(crate) const MINUTE: Span = Span::from_secs(60);
pub(crate) const HOUR: Span = Span::from_secs(3600);
pub(crate) const DAY: Span = Span::from_secs(86_400);
