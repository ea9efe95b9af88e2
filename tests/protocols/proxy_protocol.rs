//! The PROXY protocol: a gate behind proxies that say who connected to them, and behind others who would like to.
//!
//! The gate is the built binary. The headers are written here by the words of the protocol and not by the crate that reads
//! them. A real HAProxy is in `tests/fronts`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "these are tests"
)]

mod broken;
mod clients;
mod encrypted;
mod pieces;

use std::net::Ipv4Addr;

use support::{Client, Gate, ONE_AN_HOUR, Upstream};

/// A gate that trusts 127.0.0.1 only, with more lines for `[proxy]`.
pub(crate) fn gate(upstream: &Upstream, version: &str, proxy: &str) -> Gate {
    Gate::start(&upstream.file(&file(version, proxy)))
}

/// The tables of such a gate.
pub(crate) fn file(version: &str, proxy: &str) -> String {
    format!(
        "[client]\ntrust = \"127.0.0.1\"\n{ONE_AN_HOUR}[proxy]\nproxy_protocol = \"{version}\"\n{proxy}\n"
    )
}

/// A connection of the proxy that is believed, which begins with these bytes.
pub(crate) fn connect(gate: &Gate, header: &[u8]) -> Client {
    let mut client = gate.connect();
    client.send(header);
    client
}

/// Version 1, for a client of this address.
pub(crate) fn v1(source: &str) -> Vec<u8> {
    let (family, destination) = if source.contains(':') { ("TCP6", "::1") } else { ("TCP4", "127.0.0.1") };
    format!("PROXY {family} {source} {destination} 4242 80\r\n").into_bytes()
}

/// Version 2, for a client of this address.
pub(crate) fn v2(source: Ipv4Addr) -> Vec<u8> {
    block(0x21, 0x11, &[&source.octets()[..], &[127, 0, 0, 1, 0x10, 0x92, 0, 80]].concat())
}

/// Version 2 with this command, this family, and this behind it.
pub(crate) fn block(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &length, content].concat()
}
