//! The address of a PostgreSQL database: `postgres://user:password@host:port/database?options`.

use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use crate::address::{BadStoreAddress, is_loopback};
use crate::sql::address::{SqlTls, split};

/// A parsed address.
pub(crate) struct PostgresAddress {
    pub(super) config: Config,
    pub(super) tls: SqlTls,
}

/// Parses an address.
pub(super) fn parse(url: &str) -> Result<PostgresAddress, BadStoreAddress> {
    let known = [OPTIONS, IGNORED].concat();
    let split = split(url, &known)?;
    let options = split.options.iter().filter(|(name, _)| !IGNORED.contains(name));
    let options: Vec<String> = options.map(|(name, value)| format!("{name}={value}")).collect();
    // The driver's error may repeat what was written.
    let config: Result<Config, _> = format!("{}?{}", split.base, options.join("&")).parse();
    let mut config =
        config.map_err(|_| format!("write {GRAMMAR}, special letters as percent signs and digits"))?;
    if config.get_hosts().is_empty() {
        return Err(format!("no host: write {GRAMMAR}").into());
    }
    let is_socket = |host: &Host| matches!(host, Host::Unix(_));
    if matches!(split.tls, SqlTls::On { .. }) && config.get_hosts().iter().any(is_socket) {
        return Err("TLS is not spoken over a Unix socket".into());
    }
    config.ssl_mode(match split.tls {
        SqlTls::Off => SslMode::Disable,
        SqlTls::Preferred => SslMode::Prefer,
        SqlTls::On { .. } => SslMode::Require,
    });
    if config.get_connect_timeout().is_none() {
        // For each of several hosts: one that is down must not use up the time of the others.
        config.connect_timeout(Duration::from_secs(1));
    }
    let is_chosen = split.options.iter().any(|(name, _)| *name == "target_session_attrs");
    if config.get_hosts().len() > 1 && !is_chosen {
        // If there are several hosts, one is the primary, and only it takes writes.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    if config.get_application_name().is_none() {
        config.application_name("tollgate");
    }
    Ok(PostgresAddress { config, tls: split.tls })
}

impl PostgresAddress {
    /// Whether traffic goes in clear text over a network.
    pub(super) fn is_unencrypted(&self) -> bool {
        let is_far = |host: &Host| match host {
            Host::Unix(_) => false,
            Host::Tcp(name) => !is_loopback(name),
        };
        !matches!(self.tls, SqlTls::On { .. }) && self.config.get_hosts().iter().any(is_far)
    }
}

const GRAMMAR: &str = "`postgres://user:password@host:port/database?sslmode=verify-full`";

/// The options of the driver that do no harm here.
const OPTIONS: &[&str] = &[
    "application_name",
    "channel_binding",
    "connect_timeout",
    "host",
    "keepalives",
    "keepalives_idle",
    "load_balance_hosts",
    "options",
    "target_session_attrs",
    "tcp_user_timeout",
];

/// Options of other drivers, as providers print them, that mean nothing here.
const IGNORED: &[&str] = &[
    "client_encoding",
    "connection_limit",
    "gssencmode",
    "pgbouncer",
    "pool_timeout",
    "sslcompression",
    "sslsni",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(url: &str) -> String {
        parse(url).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn a_mistake_is_said_without_what_was_written() {
        let write = format!("write {GRAMMAR}, special letters as percent signs and digits");
        assert_eq!(mistake("postgres://u:hunter2"), write);
        assert_eq!(mistake("postgres://u:p@h:hunter2/db"), write);
        assert_eq!(mistake("postgres://u:p@h/db?connect_timeout=hunter2"), write);
        assert_eq!(mistake("postgres://u:p@/db"), format!("no host: write {GRAMMAR}"));
        assert_eq!(
            mistake("postgres://u:p@%2Fvar%2Frun/db?sslmode=verify-full"),
            "TLS is not spoken over a Unix socket"
        );
        assert!(mistake("postgres://u:p@h/db?hunter2=1").starts_with("unknown option; options are sslmode"));
    }

    #[test]
    fn hosts_sockets_and_percent_signs_are_read() {
        let read = parse("postgres://u%40v:p%2Fw@h1:5433,h2/db?sslmode=verify-full").unwrap();
        assert_eq!(read.config.get_user(), Some("u@v"));
        assert_eq!(read.config.get_password(), Some(&b"p/w"[..]));
        assert_eq!(read.config.get_ports(), [5433, 5432]);
        assert_eq!(read.config.get_dbname(), Some("db"));
        assert_eq!(read.config.get_ssl_mode(), SslMode::Require);
        let read = parse("postgres://u@%2Fvar%2Frun%2Fpostgresql/db").unwrap();
        assert_eq!(read.config.get_hosts(), [Host::Unix("/var/run/postgresql".into())]);
        assert!(!read.is_unencrypted());
        assert!(parse("postgres:///db?host=/var/run/postgresql").is_ok());
    }

    #[test]
    fn addresses_are_taken_as_providers_print_them() {
        for url in [
            "postgresql://u:p@ep-cool-1.eu.aws.neon.tech/db?sslmode=require&channel_binding=require",
            "postgresql://postgres.ref:p@pool.supabase.com:6543/postgres?pgbouncer=true&connection_limit=1",
            "postgres://u:p@h.db.ondigitalocean.com:25060/defaultdb?sslmode=require",
            "postgresql://u:p@h.cockroachlabs.cloud:26257/db?sslmode=verify-full&sslrootcert=system",
            "postgresql://u:p@h/db?gssencmode=disable&sslmode=prefer&connect_timeout=10",
        ] {
            let read = parse(url).map_err(|error| format!("{url}: {error}")).unwrap();
            assert_eq!(read.config.get_password(), Some(&b"p"[..]), "{url}");
        }
        assert!(parse("postgresql://u:p@h/db?sslmode=prefer").unwrap().is_unencrypted());
        assert!(!parse("postgresql://u:p@h/db?sslmode=verify-ca").unwrap().is_unencrypted());
    }

    #[test]
    fn several_hosts_imply_a_writer() {
        let attributes = |url: &str| parse(url).unwrap().config.get_target_session_attrs();
        assert_eq!(attributes("postgres://u@h1,h2/db"), TargetSessionAttrs::ReadWrite);
        assert_eq!(attributes("postgres://u@h1,h2/db?target_session_attrs=any"), TargetSessionAttrs::Any);
        assert_eq!(attributes("postgres://u@h1/db"), TargetSessionAttrs::Any);
    }

    #[test]
    fn clear_text_over_a_network_is_told() {
        assert!(parse("postgres://u:p@db.example/db").unwrap().is_unencrypted());
        assert!(!parse("postgres://u:p@db.example/db?sslmode=require").unwrap().is_unencrypted());
        assert!(!parse("postgres://u:p@localhost/db").unwrap().is_unencrypted());
        assert!(!parse("postgres://u:p@[::1]/db").unwrap().is_unencrypted());
    }
}
