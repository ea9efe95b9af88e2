//! What a schema can say about single values: words, patterns, bounds.
//!
//! A key is named by its path, with `*` for a name of the user's choice. Tests compare each entry with what the check of
//! the file says, in both directions.

use serde_json::{Value, json};

use crate::bucket::Escalation;
use crate::config::preset::presets;

/// The path of a limit.
pub(super) const LIMIT: &str = "limit.*";
/// Keys of a limit that its candidate may not have.
pub(super) const NOT_IN_CANDIDATES: [&str; 8] =
    ["mode", "routes", "max_failures", "escalate", "candidate", "ladder", "in_flight", "on_error"];

/// The words that a key takes.
pub(super) fn words(path: &str) -> Option<&'static [&'static str]> {
    Some(match path {
        "sandbox" => &["on", "off"],
        "mode" => &["enforce", "observe"],
        "policy" => &["file", "store"],
        "reload" => &["signal", "watch"],
        "endpoint.*.kind" => &["forward-auth", "envoy-rls"],
        "route.*.exposed" => &["mark", "charge", "refuse"],
        "route.*.step" => &["after"],
        "route.*.case" => &["insensitive", "sensitive"],
        "route.*.otherwise" => &["failure", "success", "neutral"],
        "limit.*.mode" => &["enforce", "observe", "mark", "off"],
        "limit.*.refill" => &["continuous", "interval"],
        "limit.*.anchor" => &["first", "clock"],
        "limit.*.count" => &["attempts", "failures"],
        "limit.*.reset" => &["success"],
        "limit.*.unit" => &["attempts", "users", "passwords", "clients"],
        "tls.acme.challenge" => &["tls-alpn-01", "http-01"],
        "store.on_error" | "route.*.on_error" | "limit.*.on_error" => &["local", "allow", "deny"],
        "store.arithmetic" => &["store", "gate"],
        "refuse.headers" => &["refused", "always", "never"],
        "refuse.challenge" => &["off", "work"],
        "proxy.proxy_protocol" => &["off", "v1", "v2", "any"],
        "proxy.underscores" => &["drop", "pass"],
        "proxy.header_case" => &["preserve", "lower"],
        "route.*.buffer" => &["on", "off"],
        "log.level" => &["error", "warn", "info", "debug", "trace"],
        "log.format" => &["auto", "text", "json"],
        "log.style" => &["combined", "json"],
        "log.clients" => &["full", "prefix", "hash"],
        "tls.minimum" => &["1.2", "1.3"],
        "tls.client_auth" => &["request", "require"],
        _ => return None,
    })
}

/// The grammar of a string, as far as a regular expression says it.
pub(super) fn pattern(path: &str) -> Option<String> {
    let pattern = match path {
        "listen" | "admin.listen" | "endpoint.*.listen" => LISTEN.to_owned(),
        "upstream" | "route.*.upstream" => UPSTREAM.to_owned(),
        "route.*.upstream_host" => UPSTREAM_HOST.to_owned(),
        "route.*.match" => r"^\s*\S+\s+/\S*\s*$|^rls:[^/]+(/[^=]+(=[\s\S]+)?)?$".to_owned(),
        "route.*.user" | "route.*.password" | "route.*.when" => FIELD.to_owned(),
        "route.*.cors" => r"^(\*|https?://[^/?#@*A-Z]+)$".to_owned(),
        "route.*.body" | "proxy.body_memory" => r"^[0-9]+(B|KiB|MiB|GiB)$".to_owned(),
        "proxy.request_buffer" | "proxy.response_buffer" => r"^([0-9]+(B|KiB|MiB|GiB)|off)$".to_owned(),
        "limit.*.key" => format!("^{PART}(\\+{PART})*$"),
        "limit.*.rate"
        | "limit.*.ladder"
        | "limit.*.rolling"
        | "limit.*.floor"
        | "refuse.challenge_rate"
        | "route.*.attack.failures" => {
            format!("^{}$", rate())
        }
        "limit.*.rates.*" | "proxy.client_rate" => format!("^(off|{})$", rate()),
        "tls.acme.domains" => format!("^{LABEL}(\\.{LABEL})*$"),
        "tls.acme.email" => r"^[!-?A-~]+@[!-?A-~]+$".to_owned(),
        "tls.acme.directory" => "^https://.+".to_owned(),
        _ if DURATIONS.contains(&path) => format!("^{DURATION}$"),
        _ => return None,
    };
    Some(pattern)
}

/// The least and the greatest number.
pub(super) fn bounds(path: &str) -> Option<(Value, Value)> {
    let (least, most): (i64, i64) = match path {
        "client.ipv4" | "limit.*.ipv4" | "device.address_ipv4" => (0, 32),
        "client.ipv6" | "limit.*.ipv6" | "device.address_ipv6" => (0, 128),
        "route.*.in_flight" | "limit.*.in_flight" => (1, 1_000_000),
        "route.*.user_length" => (1, 4096),
        "limit.*.initial" | "limit.*.debt" => (0, u32::MAX.into()),
        "limit.*.max_failures" => (0, 10_000),
        "route.*.failure.weight" | "route.*.bait_weight" | "route.*.quick_weight" => (1, 10),
        "limit.*.escalate.after" => (1, Escalation::MAX_STRIKES.into()),
        "limit.*.escalate.factor" => (1, Escalation::MAX_FACTOR.into()),
        "store.capacity" => (1, 1_000_000_000),
        "refuse.status" | "endpoint.*.refused_status" => (400, 599),
        "proxy.threads" => (0, 1024),
        "proxy.connections" | "proxy.client_max" | "proxy.upstream_max" => (1, 10_000_000),
        "refuse.jitter" | "otel.sample" => return Some((json!(0.0), json!(1.0))),
        "route.*.attack.share" => return Some((json!(0.01), json!(1.0))),
        "route.*.attack.scale" | "route.*.attack.worst" => return Some((json!(0.001), json!(1.0))),
        _ => return None,
    };
    Some((json!(least), json!(most)))
}

/// Whether the check refuses a key here, though the table has it elsewhere.
pub(super) fn is_misplaced(path: &str) -> bool {
    matches!(path, "route.*.success.weight" | "route.*.neutral.weight")
}

/// Whether a key of one number takes a list as well: a number for each rung of a ladder.
pub(super) fn may_be_list(path: &str) -> bool {
    matches!(path, "limit.*.ipv4" | "limit.*.ipv6")
}

/// The schema of a key that takes values of several types.
pub(super) fn of_several_types(path: &str) -> Value {
    match path {
        "route.*.preset" => {
            let names: Vec<&str> = presets().iter().map(|preset| preset.name).collect();
            json!({"type": "string", "enum": names})
        }
        "route.*.cost" => json!({"anyOf": [
            {"type": "integer", "minimum": 1, "maximum": u32::MAX},
            {"type": "string", "pattern": "^count:(\\[\\]|\\{[ ,]*[_A-Za-z][_0-9A-Za-z]*([ ,]+[_A-Za-z][_0-9A-Za-z]*)*[ ,]*\\}|[A-Za-z0-9_.:-]+)$"},
        ]}),
        _ if path.ends_with(".status") => {
            let status = json!({"anyOf": [
                {"type": "integer", "minimum": 100, "maximum": 599},
                {"type": "string", "pattern": "^[1-5][xX]{2}$"},
            ]});
            json!({"anyOf": [status, {"type": "array", "items": status, "minItems": 1}]})
        }
        _ => json!({}),
    }
}

/// The grammar of a name of the user's choice.
pub(super) fn name(path: &str) -> &'static str {
    match path {
        // Its candidate is `NAME.candidate`.
        "limit" => "^[A-Za-z0-9_-]{1,64}$",
        "route" | "endpoint" => "^[A-Za-z0-9_.-]{1,64}$",
        "refuse.texts" | "route.*.refuse.texts" => "^(en|de|fr|es|pt|it|nl|pl|ja|zh|ar)$",
        _ => "^.+$",
    }
}

/// Keys without which a table means nothing.
pub(super) fn required(path: &str) -> Option<&'static [&'static str]> {
    match path {
        "tls.certificates" => Some(&["cert", "key"]),
        "tls.acme" => Some(&["domains"]),
        _ => None,
    }
}

/// Whether the value in `config.toml` is an example: without the key there is another value, or none.
pub(super) fn is_example(path: &str) -> bool {
    EXAMPLES.contains(&path) || path.starts_with("refuse.texts.") || path.starts_with("route.*.refuse.")
}

const DURATION: &str = "(?=[0-9])([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?";
const LISTEN: &str = r"^(https?://\S+|unix:.+|systemd(\+https)?:.+)$";
const UPSTREAM_HOST: &str = r"^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?$";
const UPSTREAM: &str = r"^(https?://\S+|unix:.+)$";
const FIELD: &str = "^(form:.+|json:.*|query:.+|header:.+|basic)$";
const LABEL: &str = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const PART: &str = "(ip|user|device|asn|cert|ja4|password|host|all|header:[^+]+|cookie:[^+]+)";

/// `10 per 5m burst 20`.
fn rate() -> String {
    let count = "0*[1-9][0-9]*";
    let unit = "s|sec|m|min|h|hour|d|day";
    format!(r"\s*{count}(\s*/\s*|\s+per\s+)({unit}|{DURATION})(\s+burst\s+{count})?\s*")
}

const DURATIONS: [&str; 19] = [
    "route.*.quick",
    "endpoint.*.outcome_timeout",
    "route.*.attack.calm",
    "limit.*.every",
    "limit.*.wait",
    "limit.*.escalate.wait",
    "limit.*.escalate.max",
    "device.ttl",
    "device.address_ttl",
    "store.timeout",
    "refuse.delay",
    "proxy.header_timeout",
    "proxy.body_timeout",
    "proxy.idle_timeout",
    "proxy.connect_timeout",
    "proxy.reply_timeout",
    "route.*.reply_timeout",
    "proxy.upstream_idle",
    "proxy.drain",
];

const EXAMPLES: [&str; 58] = [
    "route.*.reply_timeout",
    "include",
    "route.*.attack.worst",
    "route.*.bait",
    "route.*.quick",
    "geo.asn",
    "geo.country",
    "route.*.exposed",
    "route.*.step",
    "route.*.step_cookie",
    "route.*.cors",
    "tls.client_ca",
    "tls.client_auth",
    "route.*.outcome_header",
    "endpoint.*.kind",
    "endpoint.*.listen",
    "endpoint.*.trust",
    "endpoint.*.refused_status",
    "listen",
    "upstream",
    "networks.*",
    "route.*.match",
    "route.*.preset",
    "route.*.host",
    "route.*.upstream",
    "route.*.upstream_host",
    "route.*.limits",
    "route.*.in_flight",
    "route.*.on_error",
    "limit.*.on_error",
    "route.*.user",
    "route.*.password",
    "route.*.user_length",
    "route.*.when",
    "route.*.success",
    "route.*.failure",
    "route.*.neutral",
    "limit.*.rate",
    "limit.*.exempt",
    "limit.*.ladder",
    "limit.*.initial",
    "limit.*.ipv4",
    "limit.*.ipv6",
    "limit.*.routes",
    "limit.*.reset",
    "limit.*.in_flight",
    "limit.*.rates.*",
    "limit.*.rolling",
    "limit.*.every",
    "limit.*.floor",
    "otel.endpoint",
    "admin.listen",
    "tls.certificates",
    "tls.upstream_ca",
    "tls.acme.domains",
    "tls.acme.email",
    "tls.acme.directory_ca",
    "route.*.attack.webhook",
];
