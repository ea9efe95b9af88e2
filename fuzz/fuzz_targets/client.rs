//! Header lines, each one of the input, from a trusted peer and from another one.
//!
//! The client is always an address in canonical form, the headers of an untrusted peer do not change it, and a client
//! that is not known is a trusted proxy.

#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;
use tollgate::net::stream::PeerAddr;
use tollgate::policy::attempt::Client;
use tollgate::proxy::request::client_addr::{ClientSettings, IdentityHeader};

const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

fuzz_target!(|input: &[u8]| {
    let single = HeaderName::from_static("x-real-ip");
    let sources = [
        (HeaderName::from_static("x-forwarded-for"), IdentityHeader::XForwardedFor),
        (http::header::FORWARDED, IdentityHeader::Forwarded),
        (single.clone(), IdentityHeader::Single(single)),
    ];
    for (name, header) in sources {
        let lines = input.split(|&byte| byte == b'\n').filter_map(|line| HeaderValue::from_bytes(line).ok());
        let mut headers = HeaderMap::new();
        for line in lines.take(100) {
            headers.append(&name, line);
        }
        let trust = ["10.0.0.0/8", "fd00::/8"].map(|prefix| prefix.parse().unwrap()).into_iter().collect();
        let settings = ClientSettings { trust, header, ..Default::default() };
        let client = |ip: IpAddr| settings.client_of(PeerAddr::Ip((ip, 1).into()), &headers);

        if let Ok(client) = client(PROXY) {
            let ip = client.ip().unwrap();
            assert_eq!(ip, ip.to_canonical());
            assert!(client.known_ip().is_some() || settings.trust.contains(ip));
        }
        assert_eq!(client(STRANGER), Ok(Client::Ip(STRANGER)));
        assert_eq!(settings.client_of(PeerAddr::Unix, &headers), Ok(Client::UnixSocket));
    }
});
