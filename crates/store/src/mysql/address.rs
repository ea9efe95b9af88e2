//! The address of a MySQL database: `mysql://user:password@host:port,host:port/database?options`.

use crate::address::{BadStoreAddress, is_loopback};
use crate::sql::address::{SqlTls, decoded, split};

/// A parsed address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MysqlAddress {
    pub(super) user: String,
    pub(super) password: Option<String>,
    /// At least one name and port; of several, one is the writer. An empty name stands for the socket.
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) socket: Option<String>,
    pub(super) database: String,
    pub(super) tls: SqlTls,
}

/// Parses an address.
pub(super) fn parse(url: &str) -> Result<MysqlAddress, BadStoreAddress> {
    let split = split(url, &["socket"])?;
    let wrong = |what: &str| {
        let why = format!("{what}: write {GRAMMAR}, special letters as percent signs and digits");
        BadStoreAddress::Wrong(why)
    };
    let written = split.base.strip_prefix("mysql://").unwrap_or_default();
    let (credentials, rest) = written.split_once('@').ok_or_else(|| wrong("no user"))?;
    let (user, password) = match credentials.split_once(':') {
        Some((user, password)) => (user, Some(decoded(password)?)),
        None => (credentials, None),
    };
    let (server, database) = rest.split_once('/').ok_or_else(|| wrong("no database"))?;
    let hosts = server.split(',').map(|server| {
        let (host, port) = host_and_port(server).ok_or_else(|| wrong("not a host and a port"))?;
        Ok::<_, BadStoreAddress>((decoded(host)?, port))
    });
    let hosts: Vec<_> = hosts.collect::<Result<_, _>>()?;
    let socket = split.options.first().map(|(_, path)| decoded(path)).transpose()?;
    let is_unnamed = hosts.iter().any(|(host, _)| host.is_empty()) && (hosts.len() > 1 || socket.is_none());
    if user.is_empty() || database.is_empty() || is_unnamed {
        return Err(wrong("no user, no host or no database"));
    }
    if split.tls == SqlTls::Preferred {
        return Err("`sslmode` is `disable`, `require`, `verify-ca` or `verify-full`".into());
    }
    if socket.is_some() && split.tls != SqlTls::Off {
        return Err("TLS is not spoken over a Unix socket".into());
    }
    let (user, database) = (decoded(user)?, decoded(database)?);
    Ok(MysqlAddress { user, password, hosts, socket, database, tls: split.tls })
}

impl MysqlAddress {
    /// Whether traffic goes in clear text over a network.
    pub(super) fn is_unencrypted(&self) -> bool {
        let is_far = |(host, _): &(String, u16)| !is_loopback(host);
        self.tls == SqlTls::Off && self.socket.is_none() && self.hosts.iter().any(is_far)
    }
}

/// `host`, `host:port`, `[address]` or `[address]:port`.
fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(text) => text.split_once(']')?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    match port.strip_prefix(':') {
        Some(port) => Some((host, port.parse().ok()?)),
        None => port.is_empty().then_some((host, 3306)),
    }
}

const GRAMMAR: &str = "`mysql://user:password@host:port/database?sslmode=verify-full`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_said_without_what_was_written() {
        let write = format!("write {GRAMMAR}, special letters as percent signs and digits");
        for (url, what) in [
            ("mysql://hunter2", "no user"),
            ("mysql://u:hunter2@h", "no database"),
            ("mysql://u:p@h:hunter2/db", "not a host and a port"),
            ("mysql://u:p@[hunter2/db", "not a host and a port"),
            ("mysql://u:p@h/", "no user, no host or no database"),
            ("mysql://:hunter2@h/db", "no user, no host or no database"),
            ("mysql://u:hunter2@/db", "no user, no host or no database"),
            ("mysql://u:hunter2@h,/db", "no user, no host or no database"),
        ] {
            assert_eq!(parse(url), Err(format!("{what}: {write}").into()), "{url}");
        }
        let unknown = "unknown option; options are sslmode, sslrootcert, socket";
        assert_eq!(parse("mysql://u:p@h/db?hunter2=1"), Err(unknown.into()));
    }

    #[test]
    fn hosts_sockets_and_percent_signs_are_read() {
        let read = parse("mysql://u%40v:p%2Fw@[::1]:3307/d%20b?sslmode=verify-full").unwrap();
        assert_eq!((&read.user[..], read.password.as_deref()), ("u@v", Some("p/w")));
        assert_eq!((&read.hosts[..], &read.database[..]), (&[("::1".to_owned(), 3307)][..], "d b"));
        assert_eq!(read.tls, SqlTls::On { roots: None, checks_name: true });
        let read = parse("mysql://u@/db?socket=/run/mysqld/mysqld.sock").unwrap();
        assert_eq!(read.socket.as_deref(), Some("/run/mysqld/mysqld.sock"));
        assert!(!read.is_unencrypted());
        assert_eq!(parse("mysql://u@h/db").unwrap().hosts, [("h".to_owned(), 3306)]);
        let two = [("h1".to_owned(), 3307), ("h2".to_owned(), 3306)];
        assert_eq!(parse("mysql://u@h1:3307,h2/db").unwrap().hosts, two);
    }

    #[test]
    fn clear_text_over_a_network_is_told() {
        assert!(parse("mysql://u:p@db.example/db").unwrap().is_unencrypted());
        assert!(!parse("mysql://u:p@db.example/db?sslmode=require").unwrap().is_unencrypted());
        assert!(!parse("mysql://u:p@127.0.0.1/db").unwrap().is_unencrypted());
    }
}
