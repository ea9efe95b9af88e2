//! The attackers, each with a plan of its own. None is behind an address of its victims.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::site::{Entrance, GUESSED, POPULAR, Site, Try, anywhere, dice};
use crate::signins::rules::{DAY, MINUTE};
use support::dice::Dice;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attacker {
    /// Popular passwords at all accounts, from one address.
    OneAddress,
    /// The same from a /48: each guess from another /64.
    Network,
    /// 10,000 addresses at one account.
    Crowd,
    /// 10,000 addresses, and each day one password at all accounts.
    Spray,
    /// Pairs of a leaked list from 2,000 addresses, of which three in two hundred are right.
    Stuffing,
    /// Wrong on purpose, so that owners are locked out.
    Locker,
}

impl Attacker {
    pub(super) const ALL: [Self; 6] =
        [Self::OneAddress, Self::Network, Self::Crowd, Self::Spray, Self::Stuffing, Self::Locker];

    /// Its tries on that day.
    pub(super) fn day(self, site: &Site, day: u64, tries: &mut Vec<Try>) {
        let (first, last) = self.days(site.scale.days);
        if !(first..last).contains(&day) {
            return;
        }
        let (people, count) = (site.scale.people, self.tries_a_day(site));
        let mut dice = dice(10 + self as u64, 0, day);
        for number in 0..count {
            let at = number * (DAY / count) + dice.within(0..DAY / count);
            let so_far = (day - first) * count + number;
            let (from, account, password) = self.plan(so_far, (site, day), &mut dice);
            let is_right = account < people && password == site.password(account, day);
            let attacker = Some(self as usize);
            let entrance = Entrance::Form;
            tries.push(Try { at, from, client: 0, account, password, is_right, entrance, attacker });
        }
    }

    /// Tenths of the month: everybody has signed in somewhere before the first comes.
    fn days(self, days: u64) -> (u64, u64) {
        let (first, last) = match self {
            Self::OneAddress | Self::Spray => (2, 10),
            Self::Network => (3, 6),
            Self::Crowd => (3, 5),
            Self::Stuffing => (5, 7),
            Self::Locker => (6, 9),
        };
        (days * first / 10, days * last / 10)
    }

    fn tries_a_day(self, site: &Site) -> u64 {
        let people = site.scale.people;
        match self {
            Self::OneAddress | Self::Network => 2 * people,
            Self::Crowd => 4 * people,
            Self::Spray => people,
            Self::Stuffing => 5 * people / 2,
            // Forty of 2,000 accounts, each every two minutes.
            Self::Locker => people / 50 * (DAY / (2 * MINUTE)),
        }
    }

    fn plan(self, so_far: u64, (site, day): (&Site, u64), dice: &mut Dice) -> (IpAddr, u64, u64) {
        let people = site.scale.people;
        let bot = |count| botnet(self as u64, so_far * 7 % count);
        match self {
            Self::OneAddress => {
                (Ipv4Addr::new(198, 51, 100, 7).into(), so_far % people, so_far / people % POPULAR)
            }
            Self::Network => {
                let part = u16::try_from(so_far % 65_536).unwrap();
                let from = Ipv6Addr::new(0x2001, 0xdb8, 0x48, part, 0, 0, 0, 1).into();
                (from, dice.within(0..people), dice.within(0..POPULAR))
            }
            Self::Crowd => (bot(10_000), people / 3, GUESSED + so_far),
            Self::Spray => (bot(10_000), so_far % people, day % POPULAR),
            Self::Stuffing if so_far * 3 % 200 < 3 => {
                let account = dice.within(0..people);
                (bot(2_000), account, site.password(account, day))
            }
            Self::Stuffing => (bot(2_000), people + so_far, GUESSED * 2 + so_far),
            Self::Locker => (bot(500), so_far % (people / 50) * 47 + 3, GUESSED * 3 + so_far),
        }
    }
}

fn botnet(of: u64, number: u64) -> IpAddr {
    anywhere(&mut dice(20, of, number))
}
