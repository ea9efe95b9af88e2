//! The file as written: which keys there are, and the types of their values.
//!
//! Defaults, meaning and references are left to [`check`](super::check). `config.toml` in the root of the source tells
//! people what each key means.

use super::diagnostic::Findings;
use super::document::{Located, TomlTable, TomlValue};
use super::section::{FromKey, KeyType, RawKey, RawTable, SecretText, StringList, raw_tables};

pub(super) use super::section::{RawItem, RawNamed};

type Text = Located<String>;

raw_tables! {
    /// The whole file.
    RawFile {
        listen: Option<StringList>,
        upstream: Option<StringList>,
        sandbox: Option<Text>,
        mode: Option<Text>,
        policy: Option<Text>,
        #[expect(dead_code, reason = "the files are read before the tables are: `include.rs`")]
        include: Option<StringList>,
        reload: Option<Text>,
        client: RawClient,
        networks: Vec<RawNamed<StringList>>,
        geo: RawGeo,
        routes("route"): Vec<RawNamed<RawRoute>>,
        limits("limit"): Vec<RawNamed<RawLimit>>,
        endpoints("endpoint"): Vec<RawNamed<RawEndpoint>>,
        device: RawDevice,
        exposed: RawExposed,
        store: RawStore,
        refuse: RawRefuse,
        proxy: RawProxy,
        log: RawLog,
        otel: RawOtel,
        admin: RawAdmin,
        tls: RawTls,
    }

    /// `[client]`.
    RawClient {
        trust: Option<StringList>,
        header: Option<Text>,
        ipv4: Option<Located<i64>>,
        ipv6: Option<Located<i64>>,
    }

    /// `[geo]`.
    RawGeo {
        asn: Option<Text>,
        country: Option<Text>,
    }

    /// `[route.NAME]`.
    RawRoute {
        patterns("match"): Option<StringList>,
        /// An invalid one, already reported, which stands for the missing patterns: valid ones are expanded.
        preset: Option<Located<TomlValue>>,
        host: Option<StringList>,
        host_default: Option<Located<bool>>,
        upstream: Option<StringList>,
        upstream_host: Option<Text>,
        limits: Option<StringList>,
        case: Option<Text>,
        cost: Option<Located<TomlValue>>,
        body: Option<Text>,
        buffer: Option<Text>,
        reply_timeout: Option<Text>,
        in_flight: Option<Located<i64>>,
        cors: Option<StringList>,
        on_error: Option<Text>,
        success: Vec<RawItem<RawRule>>,
        failure: Vec<RawItem<RawRule>>,
        neutral: Vec<RawItem<RawRule>>,
        otherwise: Option<Text>,
        outcome_header: Option<Text>,
        when: Option<StringList>,
        user: Option<StringList>,
        password: Option<StringList>,
        user_length: Option<Located<i64>>,
        exposed: Option<Text>,
        bait: Option<StringList>,
        bait_weight: Option<Located<i64>>,
        quick: Option<Text>,
        quick_weight: Option<Located<i64>>,
        step: Option<Text>,
        step_cookie: Option<Text>,
        attack: Option<RawNamed<RawAttack>>,
        refuse: Option<RawNamed<RawPages>>,
    }

    /// `[route.NAME.refuse]`.
    RawPages {
        html: Option<Text>,
        json: Option<Text>,
        text: Option<Text>,
        texts: Vec<RawNamed<RawTexts>>,
    }

    /// `[route.NAME.attack]`.
    RawAttack {
        failures: Option<Text>,
        share: Option<Located<f64>>,
        scale: Option<Located<f64>>,
        worst: Option<Located<f64>>,
        calm: Option<Text>,
        webhook: Option<Text>,
    }

    /// A rule about an answer: `success`, `failure` and `neutral` of a route.
    RawRule {
        status: Option<Located<TomlValue>>,
        location: Option<Text>,
        set_cookie: Option<Text>,
        header: Option<Text>,
        json: Option<Text>,
        body: Option<Text>,
        equals: Option<Text>,
        weight: Option<Located<i64>>,
    }

    /// `[limit.NAME]`.
    RawLimit {
        key: Option<Text>,
        rate: RawKey<Text>,
        exempt: Option<StringList>,
        rates: Vec<RawNamed<Text>>,
        /// Never there: its rungs are limits of their own by now.
        ladder: Option<StringList>,
        ipv4: Option<Located<i64>>,
        ipv6: Option<Located<i64>>,
        mode: Option<Text>,
        initial: Option<Located<i64>>,
        debt: Option<Located<i64>>,
        routes: Option<StringList>,
        refill: Option<Text>,
        anchor: Option<Text>,
        rolling: RawKey<Text>,
        every: Option<Text>,
        floor: Option<Text>,
        wait: Option<Text>,
        count: Option<Text>,
        reset: Option<Text>,
        in_flight: Option<Located<i64>>,
        on_error: Option<Text>,
        unit: Option<Text>,
        max_failures: Option<Located<i64>>,
        escalate: Option<RawNamed<RawEscalate>>,
        /// One that is no table: others are limits of their own by now.
        candidate: Option<Located<TomlValue>>,
    }

    /// `[limit.NAME.escalate]`.
    RawEscalate {
        after: Option<Located<i64>>,
        wait: Option<Text>,
        factor: Option<Located<i64>>,
        max: Option<Text>,
    }

    /// `[endpoint.NAME]`.
    RawEndpoint {
        kind: Option<Text>,
        listen: Option<StringList>,
        trust: Option<StringList>,
        refused_status: Option<Located<i64>>,
        outcome_timeout: Option<Text>,
        bodies: Option<Located<bool>>,
    }

    /// `[device]`.
    RawDevice {
        secret: RawKey<Located<SecretText>>,
        ttl: Option<Text>,
        cookie: Option<Text>,
        addresses: Option<Located<bool>>,
        address_ttl: Option<Text>,
        address_ipv4: Option<Located<i64>>,
        address_ipv6: Option<Located<i64>>,
    }

    /// `[exposed]`.
    RawExposed {
        file: Option<Text>,
    }

    /// `[store]`.
    RawStore {
        url: Option<Located<SecretText>>,
        timeout: Option<Text>,
        on_error: Option<Text>,
        arithmetic: Option<Text>,
        prefix: Option<Text>,
        secret: Option<Located<SecretText>>,
        capacity: Option<Located<i64>>,
        snapshot: Option<Text>,
    }

    /// `[refuse]`.
    RawRefuse {
        status: Option<Located<i64>>,
        html: Option<Text>,
        json: Option<Text>,
        text: Option<Text>,
        headers: Option<Text>,
        delay: Option<Text>,
        challenge: Option<Text>,
        challenge_rate: Option<Text>,
        jitter: Option<Located<f64>>,
        texts: Vec<RawNamed<RawTexts>>,
    }

    /// `[refuse.texts.LANG]` and `[route.NAME.refuse.texts.LANG]`.
    RawTexts {
        title: Option<Text>,
        wait: Option<Text>,
        now: Option<Text>,
        never: Option<Text>,
        back: Option<Text>,
        request: Option<Text>,
        offer: Option<Text>,
        earn: Option<Text>,
        working: Option<Text>,
        days: Option<Text>,
        hours: Option<Text>,
        minutes: Option<Text>,
        seconds: Option<Text>,
        list: Option<Text>,
    }

    /// `[proxy]`.
    RawProxy {
        threads: Option<Located<i64>>,
        connections: Option<Located<i64>>,
        client_max: Option<Located<i64>>,
        client_rate: Option<Text>,
        header_timeout: Option<Text>,
        body_timeout: Option<Text>,
        idle_timeout: Option<Text>,
        connect_timeout: Option<Text>,
        reply_timeout: Option<Text>,
        upstream_idle: Option<Text>,
        upstream_max: Option<Located<i64>>,
        request_buffer: Option<Text>,
        response_buffer: Option<Text>,
        body_memory: Option<Text>,
        drain: Option<Text>,
        proxy_protocol: Option<Text>,
        underscores: Option<Text>,
        header_case: Option<Text>,
        strip: Option<StringList>,
        keep: Option<StringList>,
    }

    /// `[log]`.
    RawLog {
        level: Option<Text>,
        format: Option<Text>,
        access: Option<Text>,
        style: Option<Text>,
        clients: Option<Text>,
        decisions: Option<Text>,
    }

    /// `[otel]`.
    RawOtel {
        endpoint: Option<Text>,
        sample: Option<Located<f64>>,
    }

    /// `[admin]`.
    RawAdmin {
        listen: Option<StringList>,
        token: Option<Located<SecretText>>,
    }

    /// `[tls]`.
    RawTls {
        certificates: RawKey<Vec<RawItem<RawCertificate>>>,
        acme: Option<RawNamed<RawAcme>>,
        minimum: Option<Text>,
        redirect: Option<Located<bool>>,
        upstream_ca: Option<Text>,
        client_ca: Option<Text>,
        client_auth: Option<Text>,
    }

    /// `tls.acme`.
    RawAcme {
        domains: Option<StringList>,
        email: Option<Text>,
        directory: Option<Text>,
        challenge: Option<Text>,
        state: Option<Text>,
        directory_ca: Option<Text>,
    }

    /// A certificate and its key, by the paths of their files.
    RawCertificate {
        cert: RawKey<Text>,
        key: RawKey<Text>,
    }
}

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
            ("client", RawClient::KEYS),
            ("geo", RawGeo::KEYS),
            ("route", RawRoute::KEYS),
            ("route", RawAttack::KEYS),
            ("route", RawPages::KEYS),
            ("limit", RawLimit::KEYS),
            ("limit", RawEscalate::KEYS),
            ("endpoint", RawEndpoint::KEYS),
            ("device", RawDevice::KEYS),
            ("exposed", RawExposed::KEYS),
            ("store", RawStore::KEYS),
            ("refuse", RawRefuse::KEYS),
            ("refuse", RawTexts::KEYS),
            ("proxy", RawProxy::KEYS),
            ("log", RawLog::KEYS),
            ("otel", RawOtel::KEYS),
            ("admin", RawAdmin::KEYS),
            ("tls", RawTls::KEYS),
            ("tls", RawAcme::KEYS),
            ("tls", RawCertificate::KEYS),
        ] {
            let lines = sample(table);
            for key in keys {
                let is_named = |line: &str| {
                    let line = line.split('#').next().unwrap_or_default();
                    line.split_once('=').is_some_and(|(name, _)| name.trim() == *key)
                        || line.trim_end().ends_with(&format!(".{key}]"))
                        || line.starts_with("[") && line.contains(&format!(".{key}."))
                        || line.contains(&format!(" {key} = "))
                };
                assert!(lines.lines().any(is_named), "config.toml does not name `{key}` of [{table}]");
            }
        }
    }
}
