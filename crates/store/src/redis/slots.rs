//! The slots of a cluster, and the server that owns each.
//!
//! A server that does not know its own name lists itself with an empty one: then the name counts under which it was
//! reached. Sockets are left to [`cluster`](super::cluster).

use std::collections::BTreeMap;

use redis::Value;

use super::address::Host;
use super::reply::unexpected;
use crate::compare_and_swap::StoreError;

/// The owners of the 16384 slots, as far as they are known.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Slots {
    /// By first slot: the last slot, and the owner.
    ranges: BTreeMap<u16, (u16, Host)>,
    /// Slots that have moved since.
    moved: BTreeMap<u16, Host>,
}

impl Slots {
    /// Reads the reply of this server to `CLUSTER SLOTS`.
    pub(super) fn read(value: Value, server: &Host) -> Result<Self, StoreError> {
        let ranges = redis::from_redis_value::<Vec<Vec<Value>>>(value).map_err(|_| unexpected())?;
        let ranges = ranges.into_iter().map(|range| owner(range, server).ok_or_else(unexpected));
        Ok(Self { ranges: ranges.collect::<Result<_, _>>()?, moved: BTreeMap::new() })
    }

    /// The owner of a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<&Host> {
        let known = || self.ranges.range(..=slot).next_back().filter(|(_, (last, _))| slot <= *last);
        self.moved.get(&slot).or_else(|| known().map(|(_, (_, host))| host))
    }

    /// Whether every slot has an owner.
    pub(super) fn are_complete(&self) -> bool {
        let count = |(first, (last, _)): (&u16, &(u16, Host))| u32::from(*last) + 1 - u32::from(*first);
        self.ranges.iter().filter(|(first, (last, _))| *first <= last).map(count).sum::<u32>() >= SLOTS
    }

    /// A key that a server owns, with this text in front.
    pub(super) fn key_of(&self, owner: &Host, text: &str) -> Option<String> {
        let keys = (0..MAX_KEYS).map(|number| format!("{text}{number}"));
        keys.into_iter().find(|key| self.owner(slot(key)) == Some(owner))
    }

    /// All owners.
    pub(super) fn owners(&self) -> impl Iterator<Item = &Host> {
        self.ranges.values().map(|(_, host)| host).chain(self.moved.values())
    }

    /// Records that a slot has moved to this server.
    pub(super) fn set_moved(&mut self, slot: u16, host: Host) {
        self.moved.insert(slot, host);
    }
}

/// The slot of a key without braces: CRC-16/XMODEM, by the Redis Cluster specification.
pub(super) fn slot(key: &str) -> u16 {
    let crc = key.bytes().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| crc << 1 ^ if crc >> 15 == 1 { 0x1021 } else { 0 })
    });
    crc % 16384
}

const SLOTS: u32 = 16384;
/// More than are needed to find one for a server with a thousandth of the slots.
const MAX_KEYS: u32 = 10_000;

/// Reads `host:port` from a redirection by this server.
pub(super) fn redirected(text: &str, server: &Host) -> Option<Host> {
    let (name, port) = text.rsplit_once(':')?;
    Some(named(name, port.parse().ok()?, server))
}

fn owner(range: Vec<Value>, server: &Host) -> Option<(u16, (u16, Host))> {
    let mut parts = range.into_iter();
    let (first, last, owner) = (number(parts.next()?)?, number(parts.next()?)?, parts.next()?);
    let Value::Array(owner) = owner else { return None };
    let mut owner = owner.into_iter();
    let (name, port) = (owner.next()?, number(owner.next()?)?);
    let name: Option<String> = redis::from_redis_value(name).ok()?;
    Some((first, (last, named(&name.unwrap_or_default(), port, server))))
}

/// Rejects numbers that are too large; the crate would truncate them.
fn number(value: Value) -> Option<u16> {
    let Value::Int(number) = value else { return None };
    number.try_into().ok()
}

fn named(name: &str, port: u16, server: &Host) -> Host {
    if matches!(name, "" | "?") {
        return Host { name: server.name.clone(), port };
    }
    Host { name: name.into(), port }
}
