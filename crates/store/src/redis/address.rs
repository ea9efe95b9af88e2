//! The address of Redis: `redis://[name:password@]host[:port][/database]`, `redis-cluster://host,host`,
//! `redis+sentinel://host,host/primary[/database]`; each with a second `s` for TLS, and then `?ca=FILE`.
//!
//! No name is looked up here. Errors repeat no part of the address, because any part may belong to a password that was
//! not encoded. Connecting is left to [`stream`](super::stream).

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use tollgate_base::tls::Trust;

use crate::address::{BadStoreAddress, is_loopback};

/// A parsed address.
pub(super) struct RedisAddress {
    /// At least one; of a cluster, the servers that are asked for the others; of a primary, its Sentinels.
    pub(super) hosts: Vec<Host>,
    pub(super) kind: AddressKind,
    /// Whether to speak TLS, and the file of roots to trust instead of the system's.
    pub(super) tls: Option<Option<PathBuf>>,
    pub(super) credentials: Option<Credentials>,
    pub(super) database: u16,
}

/// What the hosts of an address are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AddressKind {
    /// The only server.
    Single,
    /// Some servers of a cluster.
    Cluster,
    /// The Sentinels that know the primary of this name.
    Sentinel(String),
}

/// The name and the port of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Host {
    /// A name or an address, without brackets.
    pub(super) name: Arc<str>,
    pub(super) port: u16,
}

/// How every connection logs in.
pub(super) struct Login {
    pub(super) trust: Option<Trust>,
    pub(super) credentials: Option<Credentials>,
    /// The number of the database; 0 needs no `SELECT`.
    pub(super) database: u16,
}

/// Purposefully not `Debug`.
#[derive(Clone)]
pub(super) struct Credentials {
    /// `None` for the default user, the only one before Redis 6.
    pub(super) name: Option<String>,
    pub(super) password: String,
}

impl RedisAddress {
    /// Parses an address.
    pub(super) fn parse(url: &str) -> Result<Self, BadStoreAddress> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (path, query) = tail.split_once('?').map_or((tail, None), |(path, query)| (path, Some(query)));
        let (login, hosts) = authority.rsplit_once('@').map_or((None, authority), |(l, h)| (Some(l), h));
        if tail.contains(['@', '#']) || login.is_some_and(|login| login.contains('@')) {
            return Err(NOT_ENCODED.into());
        }
        let is_sentinel = scheme.ends_with("+sentinel");
        let port = if is_sentinel { 26379 } else { 6379 };
        let hosts = hosts.split(',').map(|text| host_at(text, port)).collect::<Result<Vec<_>, _>>()?;
        let path = path.strip_prefix('/').unwrap_or_default();
        let (kind, database) = match scheme {
            "redis-cluster" | "rediss-cluster" => (AddressKind::Cluster, path),
            _ if is_sentinel => primary(path)?,
            _ => (AddressKind::Single, path),
        };
        if hosts.len() > 1 && kind == AddressKind::Single {
            return Err("several servers are a cluster: write `redis-cluster://`".into());
        }
        if kind == AddressKind::Cluster && !database.is_empty() {
            return Err("a cluster has no databases to choose from after `/`".into());
        }
        Ok(Self {
            hosts,
            kind,
            tls: roots(scheme.starts_with("rediss"), query)?,
            credentials: login.map(credentials).transpose()?,
            database: if database.is_empty() { 0 } else { number(database)? },
        })
    }

    /// Whether a password goes in clear text over a network.
    pub(super) fn is_unencrypted(&self) -> bool {
        let is_far = |host: &Host| !is_loopback(&host.name);
        self.tls.is_none() && self.credentials.is_some() && self.hosts.iter().any(is_far)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, port } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}

/// The name that Sentinels have for a primary, and a database's number after it.
fn primary(path: &str) -> Result<(AddressKind, &str), BadStoreAddress> {
    let (name, database) = path.split_once('/').unwrap_or((path, ""));
    if name.is_empty() {
        return Err("the name of the primary is missing: write `redis+sentinel://host,host/name`".into());
    }
    Ok((AddressKind::Sentinel(decoded(name)?), database))
}

/// Parses a host with or without a port.
#[cfg(test)]
pub(super) fn host(text: &str) -> Result<Host, BadStoreAddress> {
    host_at(text, 6379)
}

fn host_at(text: &str, usual_port: u16) -> Result<Host, BadStoreAddress> {
    let bracketed = text.strip_prefix('[').and_then(|text| text.split_once(']'));
    let (name, port) = match bracketed {
        Some((name, "")) => (name, None),
        Some((name, port)) => (name, Some(port.strip_prefix(':').ok_or(NO_PORT)?)),
        None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
    };
    if name.is_empty() {
        return Err("the name of a server is missing".into());
    }
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if !name.bytes().all(|byte| is_usual(byte) || bracketed.is_some() && b":%".contains(&byte)) {
        return Err("the name of a server has invalid characters".into());
    }
    let port = match port.map(str::parse) {
        None => usual_port,
        Some(Ok(port)) if port > 0 => port,
        Some(_) => return Err(NO_PORT.into()),
    };
    Ok(Host { name: name.into(), port })
}

fn credentials(login: &str) -> Result<Credentials, BadStoreAddress> {
    let (name, password) =
        login.split_once(':').ok_or("before `@` stand `name:password`, or `:password` alone")?;
    if password.is_empty() {
        return Err("there is no password before `@`".into());
    }
    let name = (!name.is_empty()).then(|| decoded(name)).transpose()?;
    Ok(Credentials { name, password: decoded(password)? })
}

fn decoded(text: &str) -> Result<String, BadStoreAddress> {
    let decoded = percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| "percent-encoded text is not UTF-8")?.into_owned())
}

fn number(database: &str) -> Result<u16, BadStoreAddress> {
    Ok(database.parse().map_err(|_| "the part after `/` is not the number of a database")?)
}

fn roots(is_tls: bool, query: Option<&str>) -> Result<Option<Option<PathBuf>>, BadStoreAddress> {
    match query {
        None => Ok(is_tls.then_some(None)),
        Some(query) => {
            let path = query.strip_prefix("ca=").filter(|path| !path.is_empty() && !path.contains('&'));
            let path = path.ok_or("after `?` can stand only `ca=`, and the path of a file of roots")?;
            if !is_tls {
                return Err("`ca` is for `rediss://`; this is not encrypted".into());
            }
            Ok(Some(Some(decoded(path)?.into())))
        }
    }
}

const NO_PORT: &str = "a port is a number from 1 to 65535";

const NOT_ENCODED: &str =
    "in a name, a password or a path, `@`, `/`, `?` and `#` have to be written as %40, %2F, %3F and %23";
