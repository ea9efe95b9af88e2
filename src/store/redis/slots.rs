//! The slots of a cluster, and the server that owns each.
//!
//! No sockets here. The surprising thing: a server may not know its own name, and then stands in its own answers as an
//! empty one: whoever was asked is meant.

use std::collections::BTreeMap;

use redis::Value;

use super::address::Host;
use super::reply::unexpected;
use crate::store::compare_and_swap::StoreError;

/// The owners of the 16384 slots, as far as they are known.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Slots {
    /// By their first slot: the last one, and the owner.
    ranges: BTreeMap<u16, (u16, Host)>,
    /// Those that were said to have moved since.
    moved: BTreeMap<u16, Host>,
}

impl Slots {
    /// Reads the answer to `CLUSTER SLOTS` that was asked of this server.
    pub(super) fn read(value: Value, asked: &Host) -> Result<Self, StoreError> {
        let ranges = redis::from_redis_value::<Vec<Vec<Value>>>(value).map_err(|_| unexpected())?;
        let ranges = ranges.into_iter().map(|range| owner(range, asked).ok_or_else(unexpected));
        Ok(Self { ranges: ranges.collect::<Result<_, _>>()?, moved: BTreeMap::new() })
    }

    /// Who has it.
    pub(super) fn owner(&self, slot: u16) -> Option<&Host> {
        let known = || self.ranges.range(..=slot).next_back().filter(|(_, (last, _))| slot <= *last);
        self.moved.get(&slot).or_else(|| known().map(|(_, (_, host))| host))
    }

    /// Everybody who has any.
    pub(super) fn owners(&self) -> impl Iterator<Item = &Host> {
        self.ranges.values().map(|(_, host)| host).chain(self.moved.values())
    }

    /// It has moved there.
    pub(super) fn set_moved(&mut self, slot: u16, host: Host) {
        self.moved.insert(slot, host);
    }
}

/// The slot of a key without braces: CRC-16/XMODEM, as the specification of the cluster says.
pub(super) fn slot(key: &str) -> u16 {
    let crc = key.bytes().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| crc << 1 ^ if crc >> 15 == 1 { 0x1021 } else { 0 })
    });
    crc % 16384
}

/// `host:port` as a server says it of another.
pub(super) fn redirected(text: &str, asked: &Host) -> Option<Host> {
    let (name, port) = text.rsplit_once(':')?;
    Some(named(name, port.parse().ok()?, asked))
}

fn owner(range: Vec<Value>, asked: &Host) -> Option<(u16, (u16, Host))> {
    let mut parts = range.into_iter();
    let (first, last, owner) = (number(parts.next()?)?, number(parts.next()?)?, parts.next()?);
    let Value::Array(owner) = owner else { return None };
    let mut owner = owner.into_iter();
    let (name, port) = (owner.next()?, number(owner.next()?)?);
    let name: Option<String> = redis::from_redis_value(name).ok()?;
    Some((first, (last, named(&name.unwrap_or_default(), port, asked))))
}

/// The crate would cut off what is too large.
fn number(value: Value) -> Option<u16> {
    let Value::Int(number) = value else { return None };
    number.try_into().ok()
}

fn named(name: &str, port: u16, asked: &Host) -> Host {
    if matches!(name, "" | "?") {
        return Host { name: asked.name.clone(), port };
    }
    Host { name: name.into(), port }
}
