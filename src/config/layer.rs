//! The policy of a program that decides on its own requests in its own process: nothing listens, and nothing is forwarded.
//!
//! The program has the sockets, the logs and the answers. A key about these would do nothing here, so it is a mistake.

use std::sync::Arc;

use tollgate_grammar::document::{TomlEntry, TomlTable, TomlValue};
use tollgate_grammar::{Findings, Spot};

use super::{Config, ProcessSettings};
use crate::observe::settings::{DecisionLog, LogSettings};
use crate::policy::network::NetworkSet;
use crate::proxy::endpoint::{Endpoint, EndpointKind};
use crate::proxy::settings::ProxySettings;
use crate::time::Span;

/// Reports the keys that only a gate can follow.
pub(super) fn refuse_keys_of_gates(root: &TomlTable, f: &mut Findings) {
    for (path, hint) in OF_GATES {
        let path: Vec<&str> = path.split('.').collect();
        each_at(root, &path, &mut |entry| {
            let message = format!("`{}` is for a gate, and this is a layer of a program", entry.key.value);
            f.error(&entry.key.spot, message, *hint);
        });
    }
    each_at(root, &["limit", "*", "unit"], &mut |entry| {
        if matches!(&entry.node.value, TomlValue::String(unit) if unit == "bytes") {
            f.error(&entry.node.spot, "a layer does not count the bytes of answers", "leave it to a gate");
        }
    });
    each_at(root, &["limit", "*", "key"], &mut |entry| {
        if matches!(&entry.node.value, TomlValue::String(key) if key.split('+').any(|part| part.trim() == "ja4"))
        {
            f.error(&entry.node.spot, "a layer sees no handshakes of TLS, and so no `ja4`", "another key");
        }
    });
}

/// Calls `act` for each entry of this path; `*` stands for any name.
fn each_at(table: &TomlTable, path: &[&str], act: &mut dyn FnMut(&TomlEntry)) {
    let Some((name, rest)) = path.split_first() else { return };
    for entry in table.0.iter().filter(|entry| *name == "*" || entry.key.value == *name) {
        match &entry.node.value {
            _ if rest.is_empty() => act(entry),
            TomlValue::Table(inner) => each_at(inner, rest, act),
            _ => {}
        }
    }
}

/// What runs in the program: it asks as a proxy would that shows everything, and writes its logs itself.
pub(super) fn within_a_program(config: Config, whole: &Spot, f: &mut Findings) -> Config {
    let process = config.process;
    if !process.dns.names.is_empty() {
        f.error(whole, "a layer looks up no names of [networks]", "their addresses");
    }
    let endpoint = Endpoint {
        name: "layer".into(),
        listen: Vec::new(),
        kind: EndpointKind::ExtProc,
        trust: NetworkSet::default(),
        refuse: Arc::new(config.refuse.clone()),
        shows_bodies: true,
        reports_answers: true,
        // The program takes each attempt out at once.
        report_timeout: Span::from_secs(60),
    };
    Config {
        endpoints: vec![endpoint],
        process: ProcessSettings { sandbox: false, ..process },
        log: LogSettings { access: None, decisions: DecisionLog::Off, ..config.log },
        // One thread is enough by default. `client_rate` counts connections, and here each request would be one.
        proxy: ProxySettings { threads: config.proxy.threads.max(1), client_rate: None, ..config.proxy },
        ..config
    }
}

const OWN_LOGS: &str = "the program writes its logs: the layer's messages are events of `tracing`";

/// The keys that only a gate can follow, and what to do instead.
const OF_GATES: &[(&str, &str)] = &[
    ("listen", "the program listens; a gate with the same policy can `include` its file"),
    ("upstream", "the program is the application"),
    ("health", "the program is the application"),
    ("sandbox", "the program confines itself"),
    ("policy", "TollgateLayer::from_file names the file"),
    ("endpoint", "only a gate is asked by others"),
    ("log.level", OWN_LOGS),
    ("log.format", OWN_LOGS),
    ("log.access", OWN_LOGS),
    ("log.style", OWN_LOGS),
    ("log.decisions", OWN_LOGS),
    ("log.schema", OWN_LOGS),
    ("log.retention", OWN_LOGS),
    ("otel", "the program exports its own traces"),
    ("admin", "a gate that shares the store has the admin API"),
    ("kernel", "a gate that shares the store can have the kernel drop clients"),
    ("tls", "the program speaks TLS"),
    ("lists.*.url", "download the list to a file, and name that"),
    ("route.*.upstream", "the program is the application"),
    ("route.*.upstream_host", "the program is the application"),
    ("route.*.health", "the program is the application"),
    ("route.*.buffer", "the program sends its answers itself"),
    ("route.*.reply_timeout", "the program sends its answers itself"),
    ("route.*.in_flight", "`tower::limit::ConcurrencyLimit`"),
    ("limit.*.in_flight", "`tower::limit::ConcurrencyLimit`"),
    ("refuse.challenge", "a gate that shares the store can offer challenges"),
    ("refuse.challenge_rate", "a gate that shares the store can offer challenges"),
    ("proxy.client_rate", "the program accepts the connections"),
    ("proxy.header_timeout", "the program reads the requests"),
    ("proxy.idle_timeout", "the program accepts the connections"),
    ("proxy.connect_timeout", "the program is the application"),
    ("proxy.reply_timeout", "the program is the application"),
    ("proxy.upstream_idle", "the program is the application"),
    ("proxy.upstream_max", "the program is the application"),
    ("proxy.resolver", "the program is the application"),
    ("proxy.health_interval", "the program is the application"),
    ("proxy.health_timeout", "the program is the application"),
    ("proxy.health_rises", "the program is the application"),
    ("proxy.health_falls", "the program is the application"),
    ("proxy.request_buffer", "the program reads the requests"),
    ("proxy.response_buffer", "the program sends its answers itself"),
    ("proxy.drain", "the program ends by itself"),
    ("proxy.proxy_protocol", "the program reads the PROXY header"),
    ("proxy.underscores", "the program reads the headers"),
    ("proxy.header_case", "the program reads the headers"),
    ("proxy.strip", "the program reads the headers"),
    ("proxy.keep", "the program reads the headers"),
];

#[cfg(test)]
mod tests {
    use super::super::{Loaded, Sources, load};

    const POLICY: &str = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"3 per 1h\"\n";

    fn loaded(text: &str) -> Loaded {
        load(&Sources::from_text("layer.toml", text).within_a_program())
    }

    fn mistakes(text: &str) -> Vec<String> {
        let found = loaded(text).diagnostics;
        found.iter().filter(|found| found.is_error()).map(|found| found.record().message).collect()
    }

    #[test]
    fn a_policy_alone_is_enough() {
        let config = loaded(POLICY).config.unwrap();
        assert!(config.front.listen.is_empty() && config.endpoints.len() == 1);
        assert!(!config.process.sandbox && config.log.access.is_none());
        assert_eq!(config.proxy.threads, 1);
        assert!(load(&Sources::from_text("gate.toml", POLICY)).config.is_none());
    }

    #[test]
    fn what_only_a_gate_can_do_is_refused_where_it_stands() {
        for (lines, key) in [
            ("listen = \"http://127.0.0.1:1\"\n", "listen"),
            ("sandbox = \"off\"\n", "sandbox"),
            ("proxy.strip = [\"x-a\"]\n", "strip"),
            ("admin.listen = \"unix:/run/a\"\n", "admin"),
            ("kernel.nftables = \"on\"\n", "kernel"),
            ("refuse.challenge = \"work\"\n", "challenge"),
            ("store.url = \"memory:\"\nlog.level = \"debug\"\n", "level"),
        ] {
            let found = loaded(&format!("{lines}{POLICY}"));
            let wanted = format!("`{key}` is for a gate, and this is a layer of a program");
            let told = found.diagnostics.iter().find(|told| told.record().message == wanted);
            assert!(found.config.is_none() && told.is_some(), "{lines}: {:?}", found.diagnostics);
            assert!(told.is_some_and(|told| told.record().line.is_some()), "{lines}");
        }
    }

    #[test]
    fn limits_of_what_a_layer_does_not_see_are_refused() {
        let bytes = format!("{POLICY}[limit.bytes]\nunit = \"bytes\"\nrate = \"10MB/s burst 50MB\"\n");
        assert!(mistakes(&bytes).iter().any(|found| found.contains("bytes of answers")));
        let ja4 = format!("{POLICY}[limit.prints]\nkey = \"ja4\"\nrate = \"9 per 1h\"\n");
        assert!(mistakes(&ja4).iter().any(|found| found.contains("no `ja4`")), "{:?}", mistakes(&ja4));
        let header = format!("{POLICY}[limit.prints]\nkey = \"header:x-ja4\"\nrate = \"9 per 1h\"\n");
        assert!(mistakes(&header).is_empty(), "a header of a proxy: {:?}", mistakes(&header));
        let bound = POLICY.replace("[limit", "in_flight = 3\n[limit");
        assert!(mistakes(&bound).iter().any(|found| found.contains("`in_flight` is for a gate")));
    }

    #[test]
    fn a_template_or_candidate_has_no_keys_of_gates_either() {
        let template = "[template.shops]\nhosts = [\"a.example\"]\nmatch = \"POST /x\"\nin_flight = 3\n";
        let found = mistakes(&format!("{template}{POLICY}"));
        assert!(found.iter().any(|found| found.contains("`in_flight` is for a gate")), "{found:?}");
        let candidate = format!("{POLICY}[limit.address.candidate]\nkey = \"ip+ja4\"\n");
        assert!(mistakes(&candidate).iter().any(|found| found.contains("no `ja4`")), "{candidate}");
    }
}
