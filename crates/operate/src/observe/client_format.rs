//! Formats addresses of clients for logs: `log.clients`.
//!
//! It has no effect on buckets, and the format may change while lines are written. A prefix is written as its first
//! address without a length, because programs that read access logs want an address in the first column.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use ipnet::IpNet;
use siphasher::sip::SipHasher13;

use super::json_fields::put;
use super::settings::ClientsShown;
use crate::event::BucketOwner;
use crate::net::ip_text::push_ip;
use crate::policy::attempt::Client;
use crate::policy::key::PrefixLengths;

/// Formats addresses as `log.clients` defines. Copies write the same hashes, and change together.
#[derive(Clone)]
pub struct ClientFormatter {
    /// A [`PackedFormat`] in one number, so that a line never sees half a change.
    format: Arc<AtomicU32>,
    hasher: SipHasher13,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PackedFormat {
    shown: ClientsShown,
    lengths: PrefixLengths,
}

impl ClientFormatter {
    /// `lengths` are those of `[client]`; only [`ClientsShown::Prefix`] uses them.
    #[must_use]
    pub fn new(shown: ClientsShown, lengths: PrefixLengths) -> Self {
        // The standard library seeds each `RandomState` from the operating system's randomness.
        let secret = || RandomState::new().hash_one(0_u8);
        let format = PackedFormat { shown, lengths }.to_bits();
        let hasher = SipHasher13::new_with_keys(secret(), secret());
        Self { format: Arc::new(AtomicU32::new(format)), hasher }
    }

    /// Changes the format of all copies from now on.
    pub fn change(&self, shown: ClientsShown, lengths: PrefixLengths) {
        self.format.store(PackedFormat { shown, lengths }.to_bits(), Relaxed);
    }

    /// The owner of buckets; an account and other keys as hashes.
    #[must_use]
    pub fn owner(&self, owner: BucketOwner) -> String {
        match owner {
            BucketOwner::Client(client) => format!("ip:{}", self.show(client)),
            BucketOwner::Account(hash) => format!("user:#{hash:012x}"),
            BucketOwner::Key(hash) => format!("#{hash:012x}"),
        }
    }

    /// Appends the client, `-` for one without an address.
    pub fn write(&self, client: Client, line: &mut Vec<u8>) {
        let PackedFormat { shown, lengths } = self.format();
        match (client, shown) {
            (Client::UnixSocket, _) => line.push(b'-'),
            (Client::Ip(ip) | Client::BehindProxy(ip), ClientsShown::Full) => push_ip(ip, line),
            (Client::Ip(ip) | Client::BehindProxy(ip), ClientsShown::Prefix) => {
                push_ip(lengths.mask(ip), line)
            }
            (Client::Ip(ip) | Client::BehindProxy(ip), ClientsShown::Hash) => write_hex(self.hash(ip), line),
        }
    }

    /// Appends an object of the client's address or of its hash, with the name for each; nothing for a client without an
    /// address.
    pub(super) fn write_member(
        &self,
        client: Client,
        line: &mut Vec<u8>,
        object: &'static str,
        [address, hash]: [&'static str; 2],
    ) {
        let Some(ip) = client.ip() else { return };
        let PackedFormat { shown, lengths } = self.format();
        let name = if shown == ClientsShown::Hash { hash } else { address };
        put(line, &[",\"", object, "\":{\"", name, "\":\""]);
        match shown {
            ClientsShown::Full => push_ip(ip, line),
            ClientsShown::Prefix => push_ip(lengths.mask(ip), line),
            ClientsShown::Hash => write_hex(self.hash(ip), line),
        }
        put(line, &["\"}"]);
    }

    /// The client as text, for rare messages.
    #[must_use]
    pub fn show(&self, client: Client) -> String {
        let mut text = Vec::with_capacity(40);
        self.write(client, &mut text);
        String::from_utf8(text).unwrap_or_default()
    }

    /// What lines name this client by, if that names no more than an IPv4 address or an IPv6 /64.
    pub(super) fn names_alone(&self, client: Client) -> Option<String> {
        let (ip, PackedFormat { shown, lengths }) = (client.ip()?, self.format());
        let is_narrow = lengths.network_of(ip).is_some_and(|network| match network {
            IpNet::V4(network) => network.prefix_len() == 32,
            IpNet::V6(network) => network.prefix_len() >= 64,
        });
        (shown != ClientsShown::Prefix || is_narrow).then(|| self.show(client))
    }

    /// The whole address, if logs may hold whole addresses.
    #[cfg(feature = "otel")]
    pub(super) fn whole_address(&self, client: Client) -> Option<IpAddr> {
        client.ip().filter(|_| self.format().shown == ClientsShown::Full)
    }

    /// Whether addresses are written as hashes only.
    #[must_use]
    pub fn is_hashed(&self) -> bool {
        self.format().shown == ClientsShown::Hash
    }

    fn format(&self) -> PackedFormat {
        PackedFormat::from_bits(self.format.load(Relaxed))
    }

    fn hash(&self, ip: IpAddr) -> u64 {
        let mut hasher = self.hasher;
        match ip {
            IpAddr::V4(v4) => hasher.write(&v4.octets()),
            IpAddr::V6(v6) => hasher.write(&v6.octets()),
        }
        hasher.finish()
    }
}

impl std::fmt::Debug for ClientFormatter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClientFormatter({:?})", self.format().shown)
    }
}

impl PackedFormat {
    fn to_bits(self) -> u32 {
        let shown = match self.shown {
            ClientsShown::Full => 0,
            ClientsShown::Prefix => 1,
            ClientsShown::Hash => 2,
        };
        u32::from_be_bytes([0, shown, self.lengths.ipv4, self.lengths.ipv6])
    }

    fn from_bits(bits: u32) -> Self {
        let [_, shown, ipv4, ipv6] = bits.to_be_bytes();
        let shown = match shown {
            0 => ClientsShown::Full,
            1 => ClientsShown::Prefix,
            _ => ClientsShown::Hash,
        };
        Self { shown, lengths: PrefixLengths { ipv4, ipv6 } }
    }
}

fn write_hex(hash: u64, line: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in hash.to_be_bytes() {
        line.push(DIGITS[usize::from(byte >> 4)]);
        line.push(DIGITS[usize::from(byte & 15)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(ip: &str) -> Client {
        Client::from_ip(ip.parse().unwrap())
    }

    #[test]
    fn a_full_address_is_written_as_the_standard_library_writes_it() {
        let clients = ClientFormatter::new(ClientsShown::Full, PrefixLengths::default());
        for ip in ["0.0.0.0", "203.0.113.9", "255.255.255.255", "2001:db8::1", "::1"] {
            assert_eq!(clients.show(client(ip)), ip);
        }
        assert_eq!(clients.show(client("::ffff:192.0.2.1")), "192.0.2.1");
        assert_eq!(clients.show(Client::UnixSocket), "-");
    }

    #[test]
    fn a_prefix_hides_the_rest_of_the_address() {
        let clients = ClientFormatter::new(ClientsShown::Prefix, PrefixLengths { ipv4: 24, ipv6: 48 });
        assert_eq!(clients.show(client("203.0.113.9")), "203.0.113.0");
        assert_eq!(clients.show(client("2001:db8:1:2::3")), "2001:db8:1::");
    }

    #[test]
    fn a_hash_is_the_same_for_the_same_client_and_another_in_another_process() {
        let clients = ClientFormatter::new(ClientsShown::Hash, PrefixLengths::default());
        let shown = clients.show(client("203.0.113.9"));
        assert_eq!(shown.len(), 16);
        assert!(shown.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(clients.clone().show(client("203.0.113.9")), shown);
        assert_ne!(clients.show(client("203.0.113.10")), shown);
        let other = ClientFormatter::new(ClientsShown::Hash, PrefixLengths::default());
        assert_ne!(other.show(client("203.0.113.9")), shown);
    }

    #[test]
    fn copies_change_together_and_keep_their_hashes() {
        let clients = ClientFormatter::new(ClientsShown::Hash, PrefixLengths::default());
        let (copy, hash) = (clients.clone(), clients.show(client("203.0.113.9")));
        clients.change(ClientsShown::Prefix, PrefixLengths { ipv4: 16, ipv6: 128 });
        assert_eq!(copy.show(client("203.0.113.9")), "203.0.0.0");
        assert_eq!(copy.show(client("2001:db8::3")), "2001:db8::3");
        clients.change(ClientsShown::Full, PrefixLengths::default());
        assert_eq!(copy.show(client("203.0.113.9")), "203.0.113.9");
        clients.change(ClientsShown::Hash, PrefixLengths::default());
        assert_eq!(copy.show(client("203.0.113.9")), hash);
    }
}
