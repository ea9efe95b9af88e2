//! The file as it was written: which keys there are, and of which type their values are.
//!
//! No defaults, no meaning, nothing resolved: that is [`check`](super::check). A key that the manual names and
//! this version does not build is refused here, so that nobody relies on what is not there.

mod limit;
mod rule;
mod tls;

use super::diagnostic::Findings;
use super::document::{Entry, Located, Table, Value};
use super::preset::Applications;
use super::section::{Keys, List, Section, strings};

pub(super) use self::limit::{Escalate, Limit};
pub(super) use self::rule::Rule;
pub(super) use self::tls::{Pair, Tls};

type Text = Option<Located<String>>;
type Integer = Option<Located<i64>>;
type Truth = Option<Located<bool>>;

#[derive(Debug)]
pub(super) struct File {
    pub(super) listen: Option<List>,
    pub(super) upstream: Option<List>,
    pub(super) client: Client,
    pub(super) networks: Vec<Named<List>>,
    pub(super) routes: Vec<Named<Route>>,
    pub(super) limits: Vec<Named<Limit>>,
    pub(super) device: Device,
    pub(super) store: Store,
    pub(super) refuse: Refuse,
    pub(super) proxy: Proxy,
    pub(super) log: Log,
    pub(super) admin: Option<List>,
    pub(super) tls: Tls,
}

/// Something whose name the writer of the file chose.
#[derive(Debug)]
pub(super) struct Named<T> {
    pub(super) name: Located<String>,
    pub(super) value: T,
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) trust: Option<List>,
    pub(super) header: Text,
    pub(super) ipv4: Integer,
    pub(super) ipv6: Integer,
}

#[derive(Debug)]
pub(super) struct Route {
    /// The file's name for all doors of an application; the route's own name where there is one door.
    pub(super) application: String,
    pub(super) patterns: Option<List>,
    /// Whether there is still a `preset`: one that was refused already and stands for the patterns that are not there.
    pub(super) has_preset: bool,
    pub(super) host: Option<List>,
    pub(super) host_default: Truth,
    pub(super) upstream: Option<List>,
    pub(super) limits: Option<List>,
    pub(super) case: Text,
    pub(super) cost: Option<Located<Value>>,
    pub(super) body: Text,
    pub(super) in_flight: Integer,
    pub(super) success: Vec<Rule>,
    pub(super) failure: Vec<Rule>,
    pub(super) otherwise: Text,
    pub(super) when: Option<List>,
    pub(super) user: Option<List>,
    pub(super) password: Option<List>,
}

pub(super) struct Device {
    pub(super) secret: Text,
    /// Whether `secret` stands there at all: one of the wrong type is not missing.
    pub(super) has_secret: bool,
    pub(super) ttl: Text,
    pub(super) cookie: Text,
}

#[derive(Debug)]
pub(super) struct Store {
    pub(super) url: Text,
    pub(super) timeout: Text,
    pub(super) on_error: Text,
    pub(super) prefix: Text,
    pub(super) secret: Text,
    pub(super) capacity: Integer,
    pub(super) snapshot: Text,
}

#[derive(Debug)]
pub(super) struct Refuse {
    pub(super) status: Integer,
    pub(super) html: Text,
    pub(super) json: Text,
    pub(super) text: Text,
    pub(super) headers: Text,
    pub(super) delay: Text,
    pub(super) jitter: Option<Located<f64>>,
}

#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) threads: Integer,
    pub(super) connections: Integer,
    pub(super) client_max: Integer,
    pub(super) client_rate: Text,
    pub(super) header_timeout: Text,
    pub(super) body_timeout: Text,
    pub(super) idle_timeout: Text,
    pub(super) connect_timeout: Text,
    pub(super) reply_timeout: Text,
    pub(super) upstream_idle: Text,
    pub(super) upstream_max: Integer,
    pub(super) drain: Text,
    pub(super) proxy_protocol: Text,
}

#[derive(Debug)]
pub(super) struct Log {
    pub(super) level: Text,
    pub(super) format: Text,
    pub(super) access: Text,
    pub(super) style: Text,
    pub(super) clients: Text,
}

impl File {
    /// `applications` says which routes are doors of which application.
    pub(super) fn read(root: &Table, applications: &Applications, f: &mut Findings) -> Self {
        let top = Section::top(root, TOP, f);
        let networks = top.named("networks", f).iter();
        let networks = networks.map(|entry| named(entry, strings(&entry.node, f))).collect();
        let routes = top.named("route", f).iter();
        let routes = routes.map(|entry| {
            let application = applications.get(&entry.key.value).unwrap_or(&entry.key.value);
            named(entry, Route::read(application, &Section::of(entry, ROUTE, f), f))
        });
        let routes = routes.collect();
        let limits = top.named("limit", f).iter();
        let limits =
            limits.map(|entry| named(entry, Limit::read(&Section::of(entry, limit::LIMIT, f), f))).collect();
        Self {
            listen: top.strings("listen", f),
            upstream: top.strings("upstream", f),
            client: Client::read(&top.table("client", CLIENT, f), f),
            networks,
            routes,
            limits,
            device: Device::read(&top.table("device", DEVICE, f), f),
            store: Store::read(&top.table("store", STORE, f), f),
            refuse: Refuse::read(&top.table("refuse", REFUSE, f), f),
            proxy: Proxy::read(&top.table("proxy", PROXY, f), f),
            log: Log::read(&top.table("log", LOG, f), f),
            admin: top.table("admin", ADMIN, f).strings("listen", f),
            tls: Tls::read(&top, f),
        }
    }
}

fn named<T>(entry: &Entry, value: T) -> Named<T> {
    Named { name: entry.key.clone(), value }
}

impl Client {
    fn read(section: &Section<'_>, f: &mut Findings) -> Self {
        Self {
            trust: section.strings("trust", f),
            header: section.string("header", f),
            ipv4: section.integer("ipv4", f),
            ipv6: section.integer("ipv6", f),
        }
    }
}

impl Route {
    fn read(application: &str, section: &Section<'_>, f: &mut Findings) -> Self {
        Self {
            application: application.to_owned(),
            patterns: section.strings("match", f),
            has_preset: section.entry("preset").is_some(),
            host: section.strings("host", f),
            host_default: section.truth("host_default", f),
            upstream: section.strings("upstream", f),
            limits: section.strings("limits", f),
            case: section.string("case", f),
            cost: section.entry("cost").map(|entry| entry.node.clone()),
            body: section.string("body", f),
            in_flight: section.integer("in_flight", f),
            success: rule::read(section, "success", f),
            failure: rule::read(section, "failure", f),
            otherwise: section.string("otherwise", f),
            when: section.strings("when", f),
            user: section.strings("user", f),
            password: section.strings("password", f),
        }
    }
}

impl Device {
    fn read(section: &Section<'_>, f: &mut Findings) -> Self {
        Self {
            secret: section.secret("secret", f),
            has_secret: section.entry("secret").is_some(),
            ttl: section.string("ttl", f),
            cookie: section.string("cookie", f),
        }
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Device(hidden)")
    }
}

impl Store {
    fn read(section: &Section<'_>, f: &mut Findings) -> Self {
        Self {
            url: section.secret("url", f),
            timeout: section.string("timeout", f),
            on_error: section.string("on_error", f),
            prefix: section.string("prefix", f),
            secret: section.secret("secret", f),
            capacity: section.integer("capacity", f),
            snapshot: section.string("snapshot", f),
        }
    }
}

impl Refuse {
    fn read(section: &Section<'_>, f: &mut Findings) -> Self {
        Self {
            status: section.integer("status", f),
            html: section.string("html", f),
            json: section.string("json", f),
            text: section.string("text", f),
            headers: section.string("headers", f),
            delay: section.string("delay", f),
            jitter: section.number("jitter", f),
        }
    }
}

impl Proxy {
    fn read(section: &Section<'_>, f: &mut Findings) -> Self {
        Self {
            threads: section.integer("threads", f),
            connections: section.integer("connections", f),
            client_max: section.integer("client_max", f),
            client_rate: section.string("client_rate", f),
            header_timeout: section.string("header_timeout", f),
            body_timeout: section.string("body_timeout", f),
            idle_timeout: section.string("idle_timeout", f),
            connect_timeout: section.string("connect_timeout", f),
            reply_timeout: section.string("reply_timeout", f),
            upstream_idle: section.string("upstream_idle", f),
            upstream_max: section.integer("upstream_max", f),
            drain: section.string("drain", f),
            proxy_protocol: section.string("proxy_protocol", f),
        }
    }
}

impl Log {
    fn read(section: &Section<'_>, f: &mut Findings) -> Self {
        Self {
            level: section.string("level", f),
            format: section.string("format", f),
            access: section.string("access", f),
            style: section.string("style", f),
            clients: section.string("clients", f),
        }
    }
}

pub(super) const TOP: Keys = Keys {
    known: &[
        "listen", "upstream", "client", "networks", "route", "limit", "device", "store", "refuse", "proxy",
        "log", "admin", "tls",
    ],
    not_built: &[],
};
const CLIENT: Keys = Keys { known: &["trust", "header", "ipv4", "ipv6"], not_built: &[] };
const ROUTE: Keys = Keys {
    known: &[
        "match",
        "preset",
        "host",
        "host_default",
        "upstream",
        "limits",
        "case",
        "cost",
        "body",
        "in_flight",
        "success",
        "failure",
        "otherwise",
        "when",
        "user",
        "password",
    ],
    not_built: &[],
};
const DEVICE: Keys = Keys { known: &["secret", "ttl", "cookie"], not_built: &[] };
const STORE: Keys = Keys {
    known: &["url", "timeout", "on_error", "prefix", "secret", "capacity", "snapshot"],
    not_built: &[],
};
const REFUSE: Keys =
    Keys { known: &["status", "html", "json", "text", "headers", "delay", "jitter"], not_built: &[] };
const PROXY: Keys = Keys {
    known: &[
        "threads",
        "connections",
        "client_max",
        "client_rate",
        "header_timeout",
        "body_timeout",
        "idle_timeout",
        "connect_timeout",
        "reply_timeout",
        "upstream_idle",
        "upstream_max",
        "drain",
        "proxy_protocol",
    ],
    not_built: &[],
};
const LOG: Keys = Keys { known: &["level", "format", "access", "style", "clients"], not_built: &[] };
const ADMIN: Keys = Keys { known: &["listen"], not_built: &["token"] };

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the sample's tables of this name, and of what is below them.
    fn sample(table: &str) -> String {
        let text = include_str!("../../config.toml");
        let mut within = false;
        let of_table = |line: &&str| {
            if let Some(header) = line.trim_start_matches('#').strip_prefix('[') {
                within = header.split(['.', ']']).next() == Some(table);
            }
            within
        };
        text.lines()
            .filter(of_table)
            .map(|line| line.trim_start_matches(['#', ' ']))
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn the_sample_names_every_key() {
        for (table, keys) in [
            ("client", CLIENT),
            ("route", ROUTE),
            ("limit", limit::LIMIT),
            ("device", DEVICE),
            ("store", STORE),
            ("refuse", REFUSE),
            ("proxy", PROXY),
            ("log", LOG),
            ("admin", ADMIN),
            ("tls", tls::TLS),
        ] {
            let lines = sample(table);
            for key in keys.known {
                let is_named = |line: &str| {
                    let line = line.split('#').next().unwrap_or_default();
                    line.split_once('=').is_some_and(|(name, _)| name.trim() == *key)
                        || line.trim_end().ends_with(&format!(".{key}]"))
                        || line.contains(&format!(" {key} = "))
                };
                assert!(lines.lines().any(is_named), "config.toml does not name `{key}` of [{table}]");
            }
        }
    }
}
