//! The people of a site: who signs in when, from where, by what, and with which password. It knows no limiter.
//!
//! Everything is drawn from the seed, the person and the day, so a month is the same whatever else happens in it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{SEED, Scale};
use crate::signins::rules::{HOUR, MINUTE, SECOND};
use support::dice::Dice;

/// One attempt to sign in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Try {
    /// Nanoseconds since midnight.
    pub(super) at: u64,
    pub(super) from: IpAddr,
    /// The program that tries, which keeps its cookie; 0 keeps none.
    pub(super) client: u64,
    pub(super) account: u64,
    pub(super) password: u64,
    pub(super) is_right: bool,
    pub(super) entrance: Entrance,
    /// The attacker's place among all; `None` for a person.
    pub(super) attacker: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entrance {
    Form,
    /// Basic authentication of mail programs, DAV and telephones.
    Mail,
}

#[derive(Debug)]
pub(super) struct Site {
    pub(super) scale: Scale,
}

impl Site {
    pub(super) fn new(scale: Scale) -> Self {
        Self { scale }
    }

    /// All tries of people on that day.
    pub(super) fn day(&self, day: u64) -> Vec<Try> {
        let mut tries = Vec::new();
        for number in 0..self.scale.people {
            Person { number, site: self, dice: dice(2, number, day), day }.live(&mut tries);
        }
        tries
    }

    /// The password of an account on that day. Some people share popular ones; a few change theirs.
    pub(super) fn password(&self, account: u64, day: u64) -> u64 {
        match (0..=day).rev().find(|&day| changes(account, day)) {
            Some(changed) => CHANGED + account * 1000 + changed,
            None => first_password(account),
        }
    }
}

/// One in twenty-five has a popular password, and the more popular, the more people have it.
fn first_password(account: u64) -> u64 {
    let mut dice = dice(1, account, 0);
    if !dice.once_in(25) {
        return OWN + account;
    }
    let throw = dice.within(0..1000);
    throw * throw * throw * POPULAR / 1_000_000_000
}

fn changes(account: u64, day: u64) -> bool {
    day > 0 && dice(3, account, day).once_in(1000)
}

struct Person<'s> {
    number: u64,
    site: &'s Site,
    dice: Dice,
    day: u64,
}

impl Person<'_> {
    fn live(&mut self, tries: &mut Vec<Try>) {
        let often = self.dice.pick(&[0, 1, 1, 1, 2]);
        for _ in 0..often {
            self.sign_in(tries);
        }
        match self.number % 3 {
            0 => self.poll(self.at_desk(), tries),
            1 => self.poll(self.with_telephone(), tries),
            _ => {}
        }
    }

    /// By the form, perhaps after wrong passwords.
    fn sign_in(&mut self, tries: &mut Vec<Try>) {
        let at = match self.is_in_office() {
            true => 8 * HOUR + self.dice.within(0..90 * MINUTE),
            false => self.dice.within(7 * HOUR..23 * HOUR),
        };
        let (client, from) = match self.dice.within(0..1000) {
            0 => (0, anywhere(&mut self.dice)),
            1..10 => (self.browser(), anywhere(&mut self.dice)),
            10..40 => (0, self.place(at)),
            _ => (self.browser(), self.place(at)),
        };
        let wrong = match self.dice.within(0..1000) {
            0..4 => 5,
            4..80 => self.dice.within(1..3),
            _ => 0,
        };
        for number in 0..wrong {
            let password = MISTYPED + self.number * 10 + number;
            let at = at - (wrong - number) * 30 * SECOND;
            tries.push(self.attempt(at, (client, from), password, Entrance::Form));
        }
        tries.push(self.attempt(at, (client, from), self.password(), Entrance::Form));
    }

    /// Every four hours, and every quarter of an hour with a password that was changed less than a day and a half ago.
    fn poll(&mut self, places: [IpAddr; 24], tries: &mut Vec<Try>) {
        let minute = self.dice.within(0..15) * MINUTE;
        let changed = (self.day.saturating_sub(1)..=self.day).rev().find(|&day| changes(self.number, day));
        let is_old = |at: u64| match changed {
            Some(day) if day == self.day => at > 9 * HOUR,
            Some(_) => at < 21 * HOUR,
            None => false,
        };
        for quarter in 0..96 {
            let at = quarter * 15 * MINUTE + minute;
            let from = places[usize::try_from(quarter / 4).unwrap()];
            if is_old(at) {
                let before = self.site.password(self.number, changed.unwrap_or(1) - 1);
                tries.push(self.attempt(at, (0, from), before, Entrance::Mail));
            } else if quarter % 16 == self.number % 16 {
                tries.push(self.attempt(at, (0, from), self.password(), Entrance::Mail));
            }
        }
    }

    fn attempt(&self, at: u64, (client, from): (u64, IpAddr), password: u64, entrance: Entrance) -> Try {
        let is_right = password == self.password();
        Try { at, from, client, account: self.number, password, is_right, entrance, attacker: None }
    }

    /// On the day of a change the new one is good from the morning on; who signs in before has it already.
    fn password(&self) -> u64 {
        self.site.password(self.number, self.day)
    }

    fn browser(&self) -> u64 {
        self.number + 1
    }

    fn is_in_office(&self) -> bool {
        self.number % 100 < 15 && self.day % 7 < 5
    }

    fn place(&self, at: u64) -> IpAddr {
        let is_there = self.is_in_office() && (8 * HOUR..18 * HOUR).contains(&at);
        if is_there { OFFICE } else { self.home() }
    }

    /// One in ten has IPv6; half of the others have another address each week.
    fn home(&self) -> IpAddr {
        let number = self.number;
        if number % 10 == 9 {
            let part = u16::try_from(number).unwrap();
            return Ipv6Addr::new(0x2a00, part % 50, part, 0, 0, 0, 0, 1).into();
        }
        let week = if number.is_multiple_of(2) { self.day / 7 } else { 0 };
        let [_, _, third, fourth] = bytes(dice(4, number, week).number());
        let provider = u8::try_from(number % 20).unwrap();
        Ipv4Addr::new(81, provider, third, fourth).into()
    }

    fn at_desk(&self) -> [IpAddr; 24] {
        std::array::from_fn(|hour| self.place(hour as u64 * HOUR))
    }

    /// At home by night, else behind one of the carrier's addresses, or in the office.
    fn with_telephone(&self) -> [IpAddr; 24] {
        std::array::from_fn(|hour| match hour as u64 {
            0..=6 | 20..=23 => self.home(),
            8..=17 if self.is_in_office() => OFFICE,
            _ => {
                let address = dice(5, self.number, self.day).within(1..9);
                Ipv4Addr::new(77, 20, 30, u8::try_from(address).unwrap()).into()
            }
        })
    }
}

pub(super) fn dice(purpose: u64, one: u64, other: u64) -> Dice {
    Dice::new(SEED << 56 ^ purpose << 48 ^ one << 16 ^ other)
}

pub(super) fn anywhere(dice: &mut Dice) -> IpAddr {
    let [first, second, third, fourth] = bytes(dice.number());
    Ipv4Addr::new(first % 190 + 20, second, third, fourth).into()
}

fn bytes(number: u64) -> [u8; 4] {
    let [_, _, _, _, rest @ ..] = number.to_be_bytes();
    rest
}

const OFFICE: IpAddr = IpAddr::V4(Ipv4Addr::new(62, 10, 0, 1));
/// Passwords are numbers: the popular ones first.
pub(super) const POPULAR: u64 = 200;
const OWN: u64 = 1_000_000;
const CHANGED: u64 = 10_000_000;
const MISTYPED: u64 = 100_000_000;
pub(super) const GUESSED: u64 = 1_000_000_000;
