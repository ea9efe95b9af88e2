//! People who sign in and people who should not, each with a habit.
//!
//! Each person who is not an attacker has an own address. Attackers try the accounts of the besieged; only their owners
//! use the other accounts.

use std::net::Ipv4Addr;

use tollgate::policy::outcome::Outcome;

use crate::signins::rules::{DAY, HOUR, MINUTE, SECOND};
use support::dice::Dice;

#[derive(Debug, Clone)]
pub(crate) struct Person {
    pub(crate) habit: Habit,
    pub(crate) number: u64,
    /// What the browser has: the cookie as it sends it, and the device in it.
    pub(crate) device: Option<(String, String)>,
    left: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Habit {
    /// Signs in rightly, once at a time.
    Right,
    /// Signs in rightly in several windows at once.
    Parallel,
    /// The same as the first, to an account that strangers try.
    Besieged,
    /// Forgets the password now and then, and comes back when told to.
    Fumbling,
    /// Many accounts from one address.
    Stuffing,
    /// A few passwords on all accounts, from several addresses.
    Spraying,
    /// One account from many addresses.
    Mob,
    /// Has an account of his own, and holds attempts open.
    Insider,
}

/// What a client sends, and what will come of it: `None` is a client that hangs up.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) address: Ipv4Addr,
    pub(crate) account: String,
    pub(crate) password: String,
    pub(crate) outcome: Option<Outcome>,
    /// Nanoseconds until then.
    pub(crate) takes: u64,
}

impl Person {
    pub(crate) fn all() -> Vec<Self> {
        use Habit::*;
        let groups = [
            (Right, 40),
            (Parallel, 15),
            (Besieged, 15),
            (Fumbling, 30),
            (Stuffing, 3),
            (Spraying, 2),
            (Mob, 3),
            (Insider, 4),
        ];
        let habits = groups.into_iter().flat_map(|(habit, count)| std::iter::repeat_n(habit, count));
        (0..).zip(habits).map(|(number, habit)| Self { habit, number, device: None, left: 0 }).collect()
    }

    pub(crate) fn is_right(&self) -> bool {
        matches!(self.habit, Habit::Right | Habit::Parallel | Habit::Besieged)
    }

    pub(crate) fn request(&self, dice: &mut Dice) -> Request {
        use Habit::*;
        let n = self.number;
        let (own, victim) = (format!("p{n}"), format!("p{}", FIRST_BESIEGED + dice.within(0..15)));
        let guess = format!("guess{}", dice.within(0..500));
        let is_own = dice.once_in(2);
        let byte = |value: u64| u8::try_from(value % 250).unwrap();
        let (place, account, password) = match self.habit {
            Right | Parallel | Besieged | Fumbling => (0, own, "right".into()),
            Stuffing => (0, victim, guess),
            Spraying => (dice.within(0..6), victim, format!("common{}", dice.within(0..3))),
            Mob => (dice.within(0..2000), format!("p{}", FIRST_BESIEGED + n % 5), guess),
            Insider if is_own => (0, own, "right".into()),
            Insider => (0, victim, guess),
        };
        let outcome = match self.habit {
            Right | Parallel | Besieged => match dice.within(0..12) {
                0 => Some(Outcome::Neutral),
                1 => Some(Outcome::Error),
                _ => Some(Outcome::Success),
            },
            Fumbling if !dice.once_in(3) => Some(Outcome::Success),
            Insider if is_own && !dice.once_in(4) => Some(Outcome::Success),
            _ => dice.pick(&[
                Some(Outcome::Failure),
                Some(Outcome::Failure),
                Some(Outcome::Failure),
                Some(Outcome::Failure),
                Some(Outcome::Neutral),
                Some(Outcome::Error),
                None,
            ]),
        };
        let takes = match self.habit {
            Insider => dice.pick(&[SECOND, MINUTE, 10 * MINUTE, HOUR, 5 * HOUR]) + dice.within(0..MINUTE),
            Parallel => SECOND + dice.pick(&[2 * SECOND, MINUTE, HOUR]) * dice.within(1..100) / 100,
            _ => dice.within(SECOND / 20..4 * SECOND),
        };
        let password = if outcome == Some(Outcome::Success) { password } else { format!("{password}?") };
        let address = Ipv4Addr::new(10, byte(n), byte(place / 200), byte(place % 200));
        Request { address, account, password, outcome, takes }
    }

    /// Until the next attempt; of those who sign in once at a time, since the end of the last one.
    pub(crate) fn pause(&mut self, dice: &mut Dice) -> u64 {
        use Habit::*;
        let (session, within, between) = match self.habit {
            Right | Besieged => (12, 3 * SECOND, (10 * MINUTE, 8 * HOUR)),
            Parallel => (4, MINUTE, (HOUR, 10 * HOUR)),
            Fumbling => (15, 20 * SECOND, (HOUR, 12 * HOUR)),
            Stuffing | Spraying => (120, 5 * SECOND, (HOUR, 8 * HOUR)),
            Mob => (200, 10 * SECOND, (HOUR, 6 * HOUR)),
            Insider => (40, MINUTE, (HOUR, 6 * HOUR)),
        };
        if self.left == 0 {
            self.left = dice.within(1..session);
            return dice.within(between.0..between.1.min(DAY));
        }
        self.left -= 1;
        dice.within(SECOND / 10..within)
    }
}

const FIRST_BESIEGED: u64 = 55;
