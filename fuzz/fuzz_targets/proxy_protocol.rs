//! The first bytes from a proxy in front of us: any bytes, at once and in pieces, end at the same place or are refused
//! alike.
//!
//! Another reader of the protocol names the same client, and so does a header that is written anew with it.

#![no_main]

use std::net::{IpAddr, SocketAddr};

use libfuzzer_sys::fuzz_target;
use ppp::{HeaderResult, v1, v2};
use tollgate::net::proxy_protocol::{ProxyProtocolVersion, end, source};

fuzz_target!(|input: &[u8]| {
    let _ = source(input);
    for version in [ProxyProtocolVersion::V1, ProxyProtocolVersion::V2, ProxyProtocolVersion::Any] {
        let whole = end(input, version);
        for length in 0..input.len().min(600) {
            match end(&input[..length], version) {
                Ok(None) => {}
                found => assert_eq!(found, whole, "after {length}"),
            }
        }
        let Ok(Some(at)) = whole else { continue };
        let header = &input[..at];
        assert!(at <= if header.starts_with(b"P") { 107 } else { 4096 });
        assert_eq!(end(&header[..at - 1], version), Ok(None), "a header ends once");
        if let Ok(named) = source(header) {
            compare_with_another(header, named);
            written_again(named);
        }
    }
});

/// Compares with another reader, where that accepts the header as well.
fn compare_with_another(header: &[u8], named: Option<SocketAddr>) {
    let theirs = match HeaderResult::parse(header) {
        HeaderResult::V1(Ok(line)) => match line.addresses {
            v1::Addresses::Unknown => None,
            v1::Addresses::Tcp4(of) => Some(address(of.source_address, of.source_port)),
            v1::Addresses::Tcp6(of) => Some(address(of.source_address, of.source_port)),
        },
        HeaderResult::V2(Ok(block)) => match (block.command, block.addresses) {
            (v2::Command::Local, _) | (_, v2::Addresses::Unspecified | v2::Addresses::Unix(_)) => None,
            (_, v2::Addresses::IPv4(of)) => Some(address(of.source_address, of.source_port)),
            (_, v2::Addresses::IPv6(of)) => Some(address(of.source_address, of.source_port)),
        },
        HeaderResult::V1(Err(_)) | HeaderResult::V2(Err(_)) => return,
    };
    assert_eq!(named, theirs);
}

fn address(ip: impl Into<IpAddr>, port: u16) -> SocketAddr {
    SocketAddr::new(ip.into().to_canonical(), port)
}

fn written_again(named: Option<SocketAddr>) {
    let Some(named) = named else { return };
    assert_eq!(named.ip(), named.ip().to_canonical());
    let (family, unspecified) = if named.is_ipv4() { ("TCP4", "0.0.0.0") } else { ("TCP6", "::") };
    let line = format!("PROXY {family} {} {unspecified} {} 0\r\n", named.ip(), named.port());
    let (family, from) = match named.ip() {
        IpAddr::V4(ip) => (0x11, ip.octets().to_vec()),
        IpAddr::V6(ip) => (0x21, ip.octets().to_vec()),
    };
    let to = vec![0; from.len()];
    let addresses = [&from[..], &to, &named.port().to_be_bytes(), &[0, 0]].concat();
    let length = u16::try_from(addresses.len()).unwrap().to_be_bytes();
    let block = [b"\r\n\r\n\0\r\nQUIT\n\x21", &[family][..], &length, &addresses].concat();
    for header in [line.as_bytes(), &block] {
        assert_eq!(end(header, ProxyProtocolVersion::Any), Ok(Some(header.len())));
        assert_eq!(source(header), Ok(Some(named)));
    }
}
