//! A table of nf_tables that drops the packets of some clients at some ports, written over netlink.
//!
//! The table belongs to its socket (`NFT_TABLE_F_OWNER`, Linux 5.12): the kernel removes it when the last process that
//! holds the socket ends, however it ends, and lets no other process change it. Who is dropped is left to the caller.

mod batch;
mod listed;
mod range;

use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use rustix::thread::{CapabilitySet, capabilities};
use socket2::Socket;

pub use self::range::{AddressRange, flattened, merged, overlapping};

use self::batch::{Attributes, Batch, FinishedBatch, answer, list_request};
use self::listed::{ListProgress, ListedSet};
use super::inherited::InheritedSockets;

/// A table with four sets of addresses, and rules that drop what comes from them.
#[derive(Debug)]
pub struct NftTable {
    socket: Socket,
    name: String,
    sequence: u32,
}

/// The sets of a table: each is one for IPv4 and one for IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NftSet {
    /// Prefixes that operators banned.
    Prefixes,
    /// Single clients.
    Clients,
}

/// Addresses in a set, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NftElement {
    /// The addresses; they overlap no other element's.
    pub range: AddressRange,
    /// The time until the kernel removes it.
    pub lasts: Duration,
}

/// Why the kernel does not take a table or a change.
#[derive(Debug, thiserror::Error)]
pub enum NftError {
    /// The process may not change its network.
    #[error("it needs the capability CAP_NET_ADMIN (of systemd: AmbientCapabilities=CAP_NET_ADMIN)")]
    NoCapability,
    /// The process may not change this network, or another process owns the table.
    #[error(
        "the kernel refuses the table `inet {0}`: another gate owns it (each has its own `kernel.table`), or this process may not change its network"
    )]
    Taken(String),
    /// There is no such socket.
    #[error("this kernel has no nf_tables: {0}")]
    NoNetlink(io::Error),
    /// The kernel does not know something.
    #[error("this kernel cannot do it (Linux 5.12 and later can): {0}")]
    TooOld(io::Error),
    /// Anything else.
    #[error("the kernel refuses it: {0}")]
    Refused(io::Error),
}

impl NftTable {
    /// A new table of this name, empty and without rules. One that no process owns is replaced.
    ///
    /// # Errors
    /// See [`NftError`].
    pub fn create(name: &str) -> Result<Self, NftError> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::NETFILTER));
        let mut table = Self::over(socket.map_err(|error| NftError::NoNetlink(error.into()))?.into(), name)?;
        let mut batch = table.batch();
        batch.message(NEW_TABLE, CREATE, |table| table.text(TABLE_NAME, name));
        batch.message(DELETE_TABLE, 0, |table| table.text(TABLE_NAME, name));
        table.add_to(&mut batch);
        table.send(batch)?;
        Ok(table)
    }

    /// The table of the process that this one replaces, if it had one of this name: elements and rules as they are.
    ///
    /// # Errors
    /// See [`NftError`].
    pub fn inherit(name: &str, inherited: &mut InheritedSockets) -> Result<Option<Self>, NftError> {
        let socket = inherited.take(&socket_name(name)).pop();
        socket.map(|socket| Self::over(socket, name)).transpose()
    }

    fn over(socket: Socket, name: &str) -> Result<Self, NftError> {
        let held = capabilities(None).map_err(|error| NftError::Refused(error.into()))?;
        if !held.effective.contains(CapabilitySet::NET_ADMIN) {
            return Err(NftError::NoCapability);
        }
        socket.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(NftError::Refused)?;
        // Two processes of an upgrade never have the same numbers under way: the older one has stopped by then.
        Ok(Self { socket, name: name.to_owned(), sequence: std::process::id() << 8 })
    }

    /// The name under which the socket is handed on, and the socket.
    #[must_use]
    pub fn to_hand_on(&self) -> (String, &Socket) {
        (socket_name(&self.name), &self.socket)
    }

    /// Has the table drop what its sets name at these addresses, and nowhere else. What is in the sets stays.
    ///
    /// # Errors
    /// See [`NftError`]; nothing has changed.
    pub fn guard(&mut self, listeners: &[SocketAddr]) -> Result<(), NftError> {
        let mut batch = self.batch();
        self.add_to(&mut batch);
        batch.message(DELETE_RULE, 0, |rules| self.in_chain(rules));
        for place in listeners.iter().flat_map(GuardedPort::all_of) {
            for set in [NftSet::Prefixes, NftSet::Clients] {
                batch.message(NEW_RULE, CREATE | APPEND, |rule| {
                    self.in_chain(rule);
                    rule.nested(RULE_EXPRESSIONS, |rule| place.drop(rule, set));
                });
            }
        }
        self.send(batch)
    }

    /// The networks that the kernel has in a set; other ranges are left out.
    ///
    /// # Errors
    /// See [`NftError`].
    pub fn elements(&mut self, set: NftSet) -> Result<Vec<NftElement>, NftError> {
        let mut found = Vec::new();
        for is_ipv4 in [true, false] {
            self.sequence = self.sequence.wrapping_add(1 << 16);
            let named = |message: &mut Attributes<'_>| self.in_set(message, set.name(is_ipv4));
            let request = list_request(self.sequence, LIST_ELEMENTS, named);
            let mut buffer = vec![0; LIST_LENGTH];
            self.forget_answers();
            let sent = send(&self.socket, &request, SendFlags::empty());
            sent.map_err(|error| NftError::Refused(error.into()))?;
            let mut listed = ListedSet::default();
            loop {
                let length = (&self.socket).read(&mut buffer).map_err(NftError::Refused)?;
                match listed.read(buffer.get(..length).unwrap_or_default(), self.sequence) {
                    ListProgress::More => {}
                    ListProgress::Whole => break,
                    ListProgress::Failed(error) => return Err(self.error(error)),
                }
            }
            found.extend(listed.elements(is_ipv4));
        }
        Ok(found)
    }

    /// Takes everything out of a set and puts these elements in, in one step if they are not too many.
    ///
    /// # Errors
    /// See [`NftError`]; the set may have a part of them.
    pub fn replace(&mut self, set: NftSet, elements: &[NftElement]) -> Result<(), NftError> {
        let mut batch = self.batch();
        for name in [set.name(true), set.name(false)] {
            batch.message(DELETE_ELEMENTS, 0, |message| self.in_set(message, name));
        }
        let (first, others) = elements.split_at(elements.len().min(MAX_ELEMENTS));
        self.write(&mut batch, set, NEW_ELEMENTS, first);
        self.send(batch)?;
        self.change(set, &[], others)
    }

    /// Takes elements out of a set, then puts others in; few of them in one step.
    ///
    /// # Errors
    /// See [`NftError`], also if an element is not there: a part of the changes may have been made.
    pub fn change(
        &mut self,
        set: NftSet,
        removed: &[NftElement],
        added: &[NftElement],
    ) -> Result<(), NftError> {
        let last = removed.len().saturating_sub(1) / MAX_ELEMENTS * MAX_ELEMENTS;
        let (removed, last) = removed.split_at(last);
        for removed in removed.chunks(MAX_ELEMENTS) {
            let mut batch = self.batch();
            self.write(&mut batch, set, DELETE_ELEMENTS, removed);
            self.send(batch)?;
        }
        let (first, others) = added.split_at(added.len().min(MAX_ELEMENTS));
        let mut batch = self.batch();
        self.write(&mut batch, set, DELETE_ELEMENTS, last);
        self.write(&mut batch, set, NEW_ELEMENTS, first);
        self.send(batch)?;
        for added in others.chunks(MAX_ELEMENTS) {
            let mut batch = self.batch();
            self.write(&mut batch, set, NEW_ELEMENTS, added);
            self.send(batch)?;
        }
        Ok(())
    }

    /// Adds what is missing of table, sets and chain.
    fn add_to(&self, batch: &mut Batch) {
        batch.message(NEW_TABLE, CREATE, |table| {
            table.text(TABLE_NAME, &self.name);
            table.number(TABLE_FLAGS, OWNER);
        });
        for (id, (set, is_ipv4)) in (1..).zip(SETS) {
            batch.message(NEW_SET, CREATE, |message| {
                self.in_set(message, set.name(is_ipv4));
                message.number(SET_FLAGS, INTERVAL | TIMEOUT);
                let (kind, length) = if is_ipv4 { (7, 4) } else { (8, 16) };
                message.number(SET_KEY_TYPE, kind);
                message.number(SET_KEY_LENGTH, length);
                message.number(SET_ID, id);
                // For `nft list`: its keys have the high byte first.
                message.bytes(SET_USER_DATA, &[0, 4, 2, 0, 0, 0]);
            });
        }
        batch.message(NEW_CHAIN, CREATE, |chain| {
            chain.text(CHAIN_TABLE, &self.name);
            chain.text(CHAIN_NAME, CHAIN);
            chain.nested(CHAIN_HOOK, |hook| {
                hook.number(1, LOCAL_IN);
                hook.number(2, PRIORITY);
            });
            chain.text(CHAIN_TYPE, "filter");
        });
    }

    fn write(&self, batch: &mut Batch, set: NftSet, kind: u8, elements: &[NftElement]) {
        let flags = if kind == NEW_ELEMENTS { CREATE } else { 0 };
        for is_ipv4 in [true, false] {
            let mut of_family =
                elements.iter().filter(|element| element.range.is_ipv4() == is_ipv4).peekable();
            if of_family.peek().is_none() {
                continue;
            }
            batch.message(kind, flags, |message| {
                self.in_set(message, set.name(is_ipv4));
                message.nested(SET_ELEMENTS, |list| {
                    of_family.for_each(|element| element.write(list, kind == NEW_ELEMENTS));
                });
            });
        }
    }

    fn in_set(&self, message: &mut Attributes<'_>, name: &str) {
        message.text(SET_TABLE, &self.name);
        message.text(SET_NAME, name);
    }

    fn in_chain(&self, message: &mut Attributes<'_>) {
        message.text(RULE_TABLE, &self.name);
        message.text(RULE_CHAIN, CHAIN);
    }

    fn batch(&mut self) -> Batch {
        // More than the messages of any batch.
        self.sequence = self.sequence.wrapping_add(1 << 16);
        Batch::new(self.sequence)
    }

    /// Sends a batch and reads what the kernel says to it.
    fn send(&mut self, batch: Batch) -> Result<(), NftError> {
        let FinishedBatch { bytes, first, last } = batch.finish();
        if first == last {
            return Ok(());
        }
        let mut buffer = [0; ANSWER_LENGTH];
        self.forget_answers();
        let sent = send(&self.socket, &bytes, SendFlags::empty());
        sent.map_err(|error| NftError::Refused(error.into()))?;
        let mut refused = None;
        loop {
            let length = (&self.socket).read(&mut buffer).map_err(NftError::Refused)?;
            let Some((number, error)) = answer(buffer.get(..length).unwrap_or_default()) else { continue };
            if number.wrapping_sub(first) > last.wrapping_sub(first) {
                continue;
            }
            if error != 0 {
                refused.get_or_insert(error);
            }
            if number == last || (number == first && error != 0) {
                return refused.map_or(Ok(()), |error| Err(self.error(error)));
            }
        }
    }

    /// Reads what is left of a batch that was refused as a whole.
    fn forget_answers(&self) {
        let mut buffer = [0; ANSWER_LENGTH];
        while recv(&self.socket, &mut buffer, RecvFlags::DONTWAIT).is_ok() {}
    }

    fn error(&self, number: i32) -> NftError {
        let error = io::Error::from_raw_os_error(number);
        match Errno::from_io_error(&error) {
            Some(Errno::PERM) => NftError::Taken(self.name.clone()),
            Some(Errno::OPNOTSUPP | Errno::INVAL) => NftError::TooOld(error),
            _ => NftError::Refused(error),
        }
    }
}

impl NftSet {
    /// The name of the set for a family.
    #[must_use]
    pub fn name(self, is_ipv4: bool) -> &'static str {
        match (self, is_ipv4) {
            (Self::Prefixes, true) => "prefixes4",
            (Self::Prefixes, false) => "prefixes6",
            (Self::Clients, true) => "clients4",
            (Self::Clients, false) => "clients6",
        }
    }
}

impl NftElement {
    /// Writes the two elements of an interval: its beginning, and its end unless it ends with the last address.
    fn write(&self, list: &mut Attributes<'_>, is_new: bool) {
        let key = |element: &mut Attributes<'_>, key: &[u8]| {
            element.nested(ELEMENT_KEY, |value| value.bytes(DATA_VALUE, key));
        };
        list.nested(LIST_ELEMENT, |element| {
            key(element, &self.range.first());
            if is_new {
                let lasts = u64::try_from(self.lasts.as_millis()).unwrap_or(u64::MAX).max(1);
                element.bytes(ELEMENT_TIMEOUT, &lasts.to_be_bytes());
            }
        });
        if let Some(end) = self.range.end() {
            list.nested(LIST_ELEMENT, |element| {
                element.number(ELEMENT_FLAGS, INTERVAL_END);
                key(element, &end);
            });
        }
    }
}

/// A port, for one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GuardedPort {
    is_ipv4: bool,
    /// `None` for all addresses of this machine.
    ip: Option<IpAddr>,
    port: u16,
}

impl GuardedPort {
    /// `[::]` takes IPv4 as well.
    fn all_of(listener: &SocketAddr) -> Vec<Self> {
        let (ip, port) = (listener.ip().to_canonical(), listener.port());
        let at = |is_ipv4, ip| Self { is_ipv4, ip, port };
        match ip {
            IpAddr::V4(v4) if v4.is_unspecified() => vec![at(true, None)],
            IpAddr::V6(v6) if v6.is_unspecified() => vec![at(true, None), at(false, None)],
            ip => vec![at(ip.is_ipv4(), Some(ip))],
        }
    }

    /// The expressions of `ip daddr IP tcp dport PORT ip saddr @SET counter drop`.
    fn drop(&self, rule: &mut Attributes<'_>, set: NftSet) {
        let (family, length, from, to) = if self.is_ipv4 { (2, 4, 12, 16) } else { (10, 16, 8, 24) };
        load_meta(rule, META_FAMILY);
        compare(rule, &[family]);
        match self.ip {
            Some(IpAddr::V4(v4)) => {
                load(rule, NETWORK_HEADER, to, length);
                compare(rule, &v4.octets());
            }
            Some(IpAddr::V6(v6)) => {
                load(rule, NETWORK_HEADER, to, length);
                compare(rule, &v6.octets());
            }
            None => {}
        }
        load_meta(rule, META_PROTOCOL);
        compare(rule, &[TCP]);
        load(rule, TRANSPORT_HEADER, 2, 2);
        compare(rule, &self.port.to_be_bytes());
        load(rule, NETWORK_HEADER, from, length);
        expression(rule, "lookup", |lookup| {
            lookup.text(1, set.name(self.is_ipv4));
            lookup.number(2, REGISTER);
        });
        expression(rule, "counter", |_| {});
        expression(rule, "immediate", |verdict| {
            verdict.number(1, VERDICT_REGISTER);
            verdict.nested(2, |data| data.nested(2, |verdict| verdict.number(1, DROP)));
        });
    }
}

fn load_meta(rule: &mut Attributes<'_>, what: u32) {
    expression(rule, "meta", |meta| {
        meta.number(2, what);
        meta.number(1, REGISTER);
    });
}

fn load(rule: &mut Attributes<'_>, header: u32, offset: u32, length: u32) {
    expression(rule, "payload", |payload| {
        (1..).zip([REGISTER, header, offset, length]).for_each(|(kind, value)| payload.number(kind, value));
    });
}

fn compare(rule: &mut Attributes<'_>, with: &[u8]) {
    expression(rule, "cmp", |compare| {
        compare.number(1, REGISTER);
        compare.number(2, EQUAL);
        compare.nested(3, |data| data.bytes(DATA_VALUE, with));
    });
}

fn expression(rule: &mut Attributes<'_>, name: &str, write: impl FnOnce(&mut Attributes<'_>)) {
    rule.nested(LIST_ELEMENT, |expression| {
        expression.text(1, name);
        expression.nested(2, write);
    });
}

fn socket_name(table: &str) -> String {
    format!("nftables:{table}")
}

/// Each set of a family.
const SETS: [(NftSet, bool); 4] =
    [(NftSet::Prefixes, true), (NftSet::Prefixes, false), (NftSet::Clients, true), (NftSet::Clients, false)];
const CHAIN: &str = "input";
/// Elements of a message, which takes less than 64 KiB: 76 bytes for each of IPv6.
const MAX_ELEMENTS: usize = 500;
/// The kernel answers before `send` returns; this only bounds the wait.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Enough for the head of an answer; the message that it repeats is of no interest.
const ANSWER_LENGTH: usize = 64;
/// More than the kernel puts into one part of a list.
const LIST_LENGTH: usize = 64 * 1024;

// Messages.
const NEW_TABLE: u8 = 0;
const DELETE_TABLE: u8 = 2;
const NEW_CHAIN: u8 = 3;
const NEW_RULE: u8 = 6;
const DELETE_RULE: u8 = 8;
const NEW_SET: u8 = 9;
const NEW_ELEMENTS: u8 = 12;
const LIST_ELEMENTS: u8 = 13;
const DELETE_ELEMENTS: u8 = 14;
// Flags of messages.
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;
// Attributes, and their values.
const TABLE_NAME: u16 = 1;
const TABLE_FLAGS: u16 = 2;
const OWNER: u32 = 2;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_TYPE: u16 = 7;
const LOCAL_IN: u32 = 1;
const PRIORITY: u32 = 0;
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
/// Of sets and of lists of elements alike.
const SET_TABLE: u16 = 1;
const SET_NAME: u16 = 2;
const SET_ELEMENTS: u16 = 3;
const SET_FLAGS: u16 = 3;
const SET_KEY_TYPE: u16 = 4;
const SET_KEY_LENGTH: u16 = 5;
const SET_ID: u16 = 10;
const SET_USER_DATA: u16 = 13;
const INTERVAL: u32 = 4;
const TIMEOUT: u32 = 0x10;
const LIST_ELEMENT: u16 = 1;
const ELEMENT_KEY: u16 = 1;
const ELEMENT_FLAGS: u16 = 3;
const ELEMENT_TIMEOUT: u16 = 4;
const INTERVAL_END: u32 = 1;
const DATA_VALUE: u16 = 1;
// Expressions.
const REGISTER: u32 = 1;
const VERDICT_REGISTER: u32 = 0;
const META_FAMILY: u32 = 15;
const META_PROTOCOL: u32 = 16;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const EQUAL: u32 = 0;
const TCP: u8 = 6;
const DROP: u32 = 0;
