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
