//! Two hundred clients, each with a habit.
//!
//! The obedient have a prefix of their own on every rung of the ladder, so no other client draws on their buckets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tollgate::time::Span;

use crate::rules::{DAY, HOUR, MINUTE};
use support::dice::Dice;

/// One who asks.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) habit: Habit,
    number: u16,
    /// Attempts until the next pause.
    left: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Habit {
    /// A form now and then, all day long.
    Steady,
    /// Several at once, then nothing for hours.
    Bursty,
    /// As fast as it goes, whatever the answer.
    Hammering,
    /// Comes back exactly when it was told to.
    Obedient,
    /// Days of nothing.
    Sleeping,
    /// Another address of its network for each attempt.
    Hopping,
    /// From the office, which has rates of its own.
    Office,
    /// From a network that some limits do not see.
    Monitoring,
}

impl Client {
    pub(crate) fn all() -> Vec<Self> {
        use Habit::*;
        let groups = [
            (Steady, 40),
            (Bursty, 30),
            (Hammering, 30),
            (Obedient, 40),
            (Sleeping, 20),
            (Hopping, 20),
            (Office, 10),
            (Monitoring, 10),
        ];
        let habits = groups.into_iter().flat_map(|(habit, count)| std::iter::repeat_n(habit, count));
        (0..).zip(habits).map(|(number, habit)| Self { habit, number, left: 0 }).collect()
    }

    pub(crate) fn address(&self, dice: &mut Dice) -> IpAddr {
        let (n, [_, byte]) = (self.number, self.number.to_be_bytes());
        let any = u16::try_from(dice.within(0..65536)).unwrap();
        let [_, low] = any.to_be_bytes();
        let is_ipv4 = n.is_multiple_of(2);
        let (v4, v6) = match self.habit {
            Habit::Obedient => ([20 + byte % 100, 1, 2, 3], [0x2a00 + n, 1, 2, 3]),
            Habit::Hopping => ([192, 0, 2 + byte % 2, low], [0x2001, 0x666, n % 4, any % 512]),
            Habit::Office => ([198, 51, 100, byte], [0x2001, 0xdb8, 0x42, n]),
            Habit::Monitoring => ([203, 0, 113, byte], [0x2001, 0xdb9, 0x43, n]),
            _ => ([10, byte % 3, byte % 30, byte], [0x2001, 0x100 + n % 3, n % 12, n]),
        };
        let [a, b, c, d] = v6;
        if is_ipv4 {
            Ipv4Addr::from(v4).into()
        } else {
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 1 + any % 3).into()
        }
    }

    /// How long until the next attempt, after this answer: refused with a wait, or admitted.
    pub(crate) fn pause(&mut self, refused: Option<Span>, dice: &mut Dice) -> Span {
        if let (Habit::Obedient, Some(wait)) = (self.habit, refused) {
            // As the client reads it, in whole seconds, or as the gate means it.
            return if dice.once_in(2) { Span::from_secs(wait.as_secs_ceil()) } else { wait };
        }
        let (session, within, between) = match self.habit {
            Habit::Steady | Habit::Office => (1, MINUTE, (MINUTE.times(10), MINUTE.times(60))),
            Habit::Monitoring => (1, MINUTE, (MINUTE.times(30), HOUR)),
            Habit::Bursty => (15, Span::from_secs(3), (HOUR, HOUR.times(16))),
            Habit::Hammering => (80, Span::from_millis(400), (HOUR.times(8), HOUR.times(72))),
            Habit::Obedient => (20, Span::from_secs(2), (MINUTE, HOUR.times(10))),
            Habit::Sleeping => (12, Span::from_secs(30), (DAY, DAY.times(9))),
            Habit::Hopping => (120, Span::from_millis(300), (HOUR.times(20), HOUR.times(80))),
        };
        let (least, most) = match self.left {
            0 => {
                self.left = dice.within(0..session);
                between
            }
            _ => {
                self.left -= 1;
                (Span::ZERO, within)
            }
        };
        Span::from_nanos(dice.within(least.as_nanos()..most.as_nanos()))
    }
}
