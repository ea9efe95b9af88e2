//! No client of DNS, in a program without the feature `dns`: the system's resolver finds names, and tells no TTL.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};

use super::{DnsFound, ServiceRecord};
use crate::config::features::without;

/// There is none.
pub(super) enum DnsClient {}

impl DnsClient {
    pub(super) fn new(_servers: &[SocketAddr], _resolv_conf: &[u8]) -> io::Result<Self> {
        Err(io::Error::other(without("dns")))
    }

    pub(super) async fn addresses(&self, _name: &str) -> io::Result<DnsFound<BTreeSet<IpAddr>>> {
        match *self {}
    }

    pub(super) async fn service(&self, _name: &str) -> io::Result<DnsFound<Vec<ServiceRecord>>> {
        match *self {}
    }
}
