//! The address of Redis: `redis://[name:password@]host[:port][/database]`, `rediss://` with `?ca=FILE`, and
//! `redis-cluster://host,host`.
//!
//! No name is looked up here. Errors repeat no part of the address, because any part may belong to a password that was
//! not encoded. Connecting is left to [`stream`](super::stream).

use std::path::PathBuf;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use rustls::ClientConfig;

/// A parsed address.
pub(super) struct RedisAddress {
    /// At least one; for a cluster, the servers that are asked for the others.
    pub(super) hosts: Vec<Host>,
    pub(super) is_cluster: bool,
    /// Whether to speak TLS, and the file of roots to trust instead of the system's.
    pub(super) tls: Option<Option<PathBuf>>,
    pub(super) credentials: Option<Credentials>,
    pub(super) database: u16,
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
    pub(super) tls: Option<Arc<ClientConfig>>,
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
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let is_cluster = scheme == "redis-cluster";
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (path, query) = tail.split_once('?').map_or((tail, None), |(path, query)| (path, Some(query)));
        let (login, hosts) = authority.rsplit_once('@').map_or((None, authority), |(l, h)| (Some(l), h));
        if tail.contains(['@', '#']) || login.is_some_and(|login| login.contains('@')) {
            return Err(NOT_ENCODED.to_owned());
        }
        let hosts: Vec<Host> = hosts.split(',').map(host).collect::<Result<_, _>>()?;
        if hosts.len() > 1 && !is_cluster {
            return Err("several servers are a cluster: write `redis-cluster://`".to_owned());
        }
        let database = path.strip_prefix('/').unwrap_or_default();
        if is_cluster && !database.is_empty() {
            return Err("a cluster has no databases to choose from after `/`".to_owned());
        }
        Ok(Self {
            hosts,
            is_cluster,
            tls: roots(scheme == "rediss", query)?,
            credentials: login.map(credentials).transpose()?,
            database: if database.is_empty() { 0 } else { number(database)? },
        })
    }
}

/// Parses a host with or without a port.
pub(super) fn host(text: &str) -> Result<Host, String> {
    let bracketed = text.strip_prefix('[').and_then(|text| text.split_once(']'));
    let (name, port) = match bracketed {
        Some((name, "")) => (name, None),
        Some((name, port)) => (name, Some(port.strip_prefix(':').ok_or(NO_PORT)?)),
        None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
    };
    if name.is_empty() {
        return Err("the name of a server is missing".to_owned());
    }
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if !name.bytes().all(|byte| is_usual(byte) || bracketed.is_some() && b":%".contains(&byte)) {
        return Err("the name of a server has invalid characters".to_owned());
    }
    let port = match port.map(str::parse) {
        None => 6379,
        Some(Ok(port)) if port > 0 => port,
        Some(_) => return Err(NO_PORT.to_owned()),
    };
    Ok(Host { name: name.into(), port })
}

fn credentials(login: &str) -> Result<Credentials, String> {
    let (name, password) =
        login.split_once(':').ok_or("before `@` stand `name:password`, or `:password` alone")?;
    if password.is_empty() {
        return Err("there is no password before `@`".to_owned());
    }
    let name = (!name.is_empty()).then(|| decoded(name)).transpose()?;
    Ok(Credentials { name, password: decoded(password)? })
}

fn decoded(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| "percent-encoded text before `@` or in `ca` is not UTF-8")?.into_owned())
}

fn number(database: &str) -> Result<u16, String> {
    Ok(database.parse().map_err(|_| "the part after `/` is not the number of a database")?)
}

fn roots(is_tls: bool, query: Option<&str>) -> Result<Option<Option<PathBuf>>, String> {
    match query {
        None => Ok(is_tls.then_some(None)),
        Some(query) => {
            let path = query.strip_prefix("ca=").filter(|path| !path.is_empty() && !path.contains('&'));
            let path = path.ok_or("after `?` can stand only `ca=`, and the path of a file of roots")?;
            if !is_tls {
                return Err("`ca` is for `rediss://`; this is not encrypted".to_owned());
            }
            Ok(Some(Some(decoded(path)?.into())))
        }
    }
}

const NO_PORT: &str = "a port is a number from 1 to 65535";

const NOT_ENCODED: &str =
    "in a name, a password or a path, `@`, `/`, `?` and `#` have to be written as %40, %2F, %3F and %23";
