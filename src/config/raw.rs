//! The file as written: which keys there are, and the types of their values.
//!
//! Defaults, meaning and references are left to [`check`](super::check). A key of the manual that this version does not
//! build is refused here, so that no setting is silently without effect.

mod limit;
mod rule;
mod tls;

use super::diagnostic::Findings;
use super::document::{Located, TomlEntry, TomlTable, TomlValue};
use super::preset::Applications;
use super::section::{KnownKeys, Section, StringList, strings};

pub(super) use self::limit::{RawEscalate, RawLimit};
pub(super) use self::rule::RawRule;
pub(super) use self::tls::{RawCertificate, RawTls};

type OptString = Option<Located<String>>;
type OptInteger = Option<Located<i64>>;
type OptBool = Option<Located<bool>>;

#[derive(Debug)]
pub(super) struct RawFile {
    pub(super) listen: Option<StringList>,
    pub(super) upstream: Option<StringList>,
    pub(super) sandbox: OptString,
    pub(super) client: RawClient,
    pub(super) networks: Vec<RawNamed<StringList>>,
    pub(super) routes: Vec<RawNamed<RawRoute>>,
    pub(super) limits: Vec<RawNamed<RawLimit>>,
    pub(super) device: RawDevice,
    pub(super) store: RawStore,
    pub(super) refuse: RawRefuse,
    pub(super) proxy: RawProxy,
    pub(super) log: RawLog,
    pub(super) admin: Option<StringList>,
    pub(super) tls: RawTls,
}

/// A table or value whose name the user chose.
#[derive(Debug)]
pub(super) struct RawNamed<T> {
    pub(super) name: Located<String>,
    pub(super) value: T,
}

#[derive(Debug)]
pub(super) struct RawClient {
    pub(super) trust: Option<StringList>,
    pub(super) header: OptString,
    pub(super) ipv4: OptInteger,
    pub(super) ipv6: OptInteger,
}

#[derive(Debug)]
pub(super) struct RawRoute {
    /// The file's name for all routes of an application; the route's own name without a preset.
    pub(super) application: String,
    pub(super) patterns: Option<StringList>,
    /// Whether `preset` is still there: an invalid one, already reported, which stands for the missing patterns.
    pub(super) has_preset: bool,
    pub(super) host: Option<StringList>,
    pub(super) host_default: OptBool,
    pub(super) upstream: Option<StringList>,
    pub(super) limits: Option<StringList>,
    pub(super) case: OptString,
    pub(super) cost: Option<Located<TomlValue>>,
    pub(super) body: OptString,
    pub(super) in_flight: OptInteger,
    pub(super) success: Vec<RawRule>,
    pub(super) failure: Vec<RawRule>,
    pub(super) neutral: Vec<RawRule>,
    pub(super) otherwise: OptString,
    pub(super) when: Option<StringList>,
    pub(super) user: Option<StringList>,
    pub(super) password: Option<StringList>,
}

pub(super) struct RawDevice {
    pub(super) secret: OptString,
    /// Whether `secret` is present: one of a wrong type is not missing.
    pub(super) has_secret: bool,
    pub(super) ttl: OptString,
    pub(super) cookie: OptString,
}

#[derive(Debug)]
pub(super) struct RawStore {
    pub(super) url: OptString,
    pub(super) timeout: OptString,
    pub(super) on_error: OptString,
    pub(super) prefix: OptString,
    pub(super) secret: OptString,
    pub(super) capacity: OptInteger,
    pub(super) snapshot: OptString,
}

#[derive(Debug)]
pub(super) struct RawRefuse {
    pub(super) status: OptInteger,
    pub(super) html: OptString,
    pub(super) json: OptString,
    pub(super) text: OptString,
    pub(super) headers: OptString,
    pub(super) delay: OptString,
    pub(super) jitter: Option<Located<f64>>,
}

#[derive(Debug)]
pub(super) struct RawProxy {
    pub(super) threads: OptInteger,
    pub(super) connections: OptInteger,
    pub(super) client_max: OptInteger,
    pub(super) client_rate: OptString,
    pub(super) header_timeout: OptString,
    pub(super) body_timeout: OptString,
    pub(super) idle_timeout: OptString,
    pub(super) connect_timeout: OptString,
    pub(super) reply_timeout: OptString,
    pub(super) upstream_idle: OptString,
    pub(super) upstream_max: OptInteger,
    pub(super) body_memory: OptString,
    pub(super) drain: OptString,
    pub(super) proxy_protocol: OptString,
    pub(super) underscores: OptString,
    pub(super) strip: Option<StringList>,
    pub(super) keep: Option<StringList>,
}

#[derive(Debug)]
pub(super) struct RawLog {
    pub(super) level: OptString,
    pub(super) format: OptString,
    pub(super) access: OptString,
    pub(super) style: OptString,
    pub(super) clients: OptString,
}

impl RawFile {
    /// `applications` names the routes that come from presets.
    pub(super) fn read(root: &TomlTable, applications: &Applications, f: &mut Findings) -> Self {
        let top = Section::top(root, TOP, f);
        let networks = top.named("networks", f).iter();
        let networks = networks.map(|entry| named(entry, strings(&entry.node, f))).collect();
        let routes = top.named("route", f).iter();
        let routes = routes.map(|entry| {
            let application = applications.get(&entry.key.value).unwrap_or(&entry.key.value);
            named(entry, RawRoute::read(application, &Section::of(entry, ROUTE, f), f))
        });
        let routes = routes.collect();
        let limits = top.named("limit", f).iter();
        let limits = limits
            .map(|entry| named(entry, RawLimit::read(&Section::of(entry, limit::LIMIT, f), f)))
            .collect();
        Self {
            listen: top.strings("listen", f),
            upstream: top.strings("upstream", f),
            sandbox: top.string("sandbox", f),
            client: RawClient::read(&top.table("client", CLIENT, f), f),
            networks,
            routes,
            limits,
            device: RawDevice::read(&top.table("device", DEVICE, f), f),
            store: RawStore::read(&top.table("store", STORE, f), f),
            refuse: RawRefuse::read(&top.table("refuse", REFUSE, f), f),
            proxy: RawProxy::read(&top.table("proxy", PROXY, f), f),
            log: RawLog::read(&top.table("log", LOG, f), f),
            admin: top.table("admin", ADMIN, f).strings("listen", f),
            tls: RawTls::read(&top, f),
        }
    }
}

fn named<T>(entry: &TomlEntry, value: T) -> RawNamed<T> {
    RawNamed { name: entry.key.clone(), value }
}

impl RawClient {
    fn read(section: &Section<'_>, f: &mut Findings) -> Self {
        Self {
            trust: section.strings("trust", f),
            header: section.string("header", f),
            ipv4: section.integer("ipv4", f),
            ipv6: section.integer("ipv6", f),
        }
    }
}

impl RawRoute {
    fn read(application: &str, section: &Section<'_>, f: &mut Findings) -> Self {
        Self {
            application: application.to_owned(),
            patterns: section.strings("match", f),
            has_preset: section.entry("preset").is_some(),
            host: section.strings("host", f),
            host_default: section.boolean("host_default", f),
            upstream: section.strings("upstream", f),
            limits: section.strings("limits", f),
            case: section.string("case", f),
            cost: section.entry("cost").map(|entry| entry.node.clone()),
            body: section.string("body", f),
            in_flight: section.integer("in_flight", f),
            success: rule::read(section, "success", f),
            failure: rule::read(section, "failure", f),
            neutral: rule::read(section, "neutral", f),
            otherwise: section.string("otherwise", f),
            when: section.strings("when", f),
            user: section.strings("user", f),
            password: section.strings("password", f),
        }
    }
}

impl RawDevice {
    fn read(section: &Section<'_>, f: &mut Findings) -> Self {
        Self {
            secret: section.secret("secret", f),
            has_secret: section.entry("secret").is_some(),
            ttl: section.string("ttl", f),
            cookie: section.string("cookie", f),
        }
    }
}

impl std::fmt::Debug for RawDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RawDevice(hidden)")
    }
}

impl RawStore {
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

impl RawRefuse {
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

impl RawProxy {
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
            body_memory: section.string("body_memory", f),
            drain: section.string("drain", f),
            proxy_protocol: section.string("proxy_protocol", f),
            underscores: section.string("underscores", f),
            strip: section.strings("strip", f),
            keep: section.strings("keep", f),
        }
    }
}

impl RawLog {
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

pub(super) const TOP: KnownKeys = KnownKeys {
    known: &[
        "listen", "upstream", "sandbox", "client", "networks", "route", "limit", "device", "store", "refuse",
        "proxy", "log", "admin", "tls",
    ],
    not_built: &[],
};
const CLIENT: KnownKeys = KnownKeys { known: &["trust", "header", "ipv4", "ipv6"], not_built: &[] };
const ROUTE: KnownKeys = KnownKeys {
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
        "neutral",
        "otherwise",
        "when",
        "user",
        "password",
    ],
    not_built: &[],
};
const DEVICE: KnownKeys = KnownKeys { known: &["secret", "ttl", "cookie"], not_built: &[] };
const STORE: KnownKeys = KnownKeys {
    known: &["url", "timeout", "on_error", "prefix", "secret", "capacity", "snapshot"],
    not_built: &[],
};
const REFUSE: KnownKeys =
    KnownKeys { known: &["status", "html", "json", "text", "headers", "delay", "jitter"], not_built: &[] };
const PROXY: KnownKeys = KnownKeys {
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
        "body_memory",
        "drain",
        "proxy_protocol",
        "underscores",
        "strip",
        "keep",
    ],
    not_built: &[],
};
const LOG: KnownKeys =
    KnownKeys { known: &["level", "format", "access", "style", "clients"], not_built: &[] };
const ADMIN: KnownKeys = KnownKeys { known: &["listen"], not_built: &["token"] };

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the sample in tables of this name and below.
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
