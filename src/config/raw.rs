//! The file as written: which keys there are, what each takes, and what is special about it. Those of one module are there.
//!
//! Defaults, meaning and references are left to [`check`](super::check). `config.toml` in the root of the source tells
//! people what each key means; the comments here are for those that it shows within another one.

use tollgate_grammar::byte_rate::RateOfAttempts;
use tollgate_grammar::duration::{DAY, HOUR, SECOND};
use tollgate_grammar::kind::{
    Anything, Buffer, Bytes, Free, Given, Key, Lasting, Like, Secret, Share, Switch, Text, Whole, Wholes,
    Word,
};
use tollgate_grammar::{List, RawItem, RawKey, RawNamed, name, tables};

use super::lists::RawNetworkList;
use super::rules::RawRules;
use super::values::{
    CertifiedName, CollectorUrl, CorsOrigin, KeyId, MailAddress, ProfileName, RequestPattern,
};
use super::values::{
    CountKind, DnsServer, FieldValue, LimitKey, ListenUrl, PresetName, RateOrOff, RateValue,
};
use super::values::{DirectoryUrl, HealthProbeValue, UpstreamHostValue, UpstreamUrl};
use super::words;
use crate::defences::prefixes::{Ipv4Bits, Ipv6Bits};
use crate::defences::{
    RawBounds, RawBytes, RawDefenceTables, RawDefences, RawLookups, RawPardons, RawRouteBounds, RawStep,
    RawSubLimits,
};

/// Less would end every request at once.
type Timeout = Lasting<1, DAY>;
type Connections = Whole<usize, 1, 10_000_000>;
/// The status of a refusal.
type RefusalStatus = Whole<u16, 400, 599>;
/// Enough for whole bodies of several clients, and less than any machine has.
type BodyBuffer = Buffer<KIB, { 64 * MIB }>;
type Rate = Text<RateValue>;

tables! {
    /// The whole file.
    pub(in crate::config) RawFile {
        listen: Option<List<Text<ListenUrl>>> = Example,
        upstream: Option<List<Text<UpstreamUrl>>> = Example,
        health: Key<Text<HealthProbeValue>> = Example,
        sandbox: Key<Word<words::OnOff>>,
        mode: Key<Word<words::FileModes>>,
        policy: Key<Word<words::PolicyPlaces>>,
        include: Option<List> = Example,
        reload: Key<Word<words::Reloads>>,
        client: RawClient,
        /// Names for networks, for `exempt`, `trust` and `rates`.
        networks: Vec<RawNamed<List>> = Example,
        lists: Vec<RawNamed<RawNetworkList>>,
        lookups: RawLookups = Part,
        /// Programs that sign their requests.
        monitors("monitor"): Vec<RawNamed<RawMonitor>>,
        /// What is protected. A request that matches no route is forwarded and never counted.
        routes("route"): Vec<RawNamed<RawRoute>>,
        /// Routes for the hosts of a list.
        templates("template"): Vec<RawNamed<RawTemplate>>,
        /// How often. Every limit applies to every route, unless `limits` or `routes` narrows it.
        limits("limit"): Vec<RawNamed<RawLimit>>,
        /// Where other proxies ask before they forward.
        endpoints("endpoint"): Vec<RawNamed<RawEndpoint>>,
        defences: RawDefenceTables = Part,
        store: RawStore,
        refuse: RawRefuse,
        proxy: RawProxy,
        log: RawLog,
        otel: RawOtel,
        admin: RawAdmin,
        kernel: RawKernel,
        tls: RawTls,
    }

    /// Who is the client?
    pub(in crate::config) RawClient {
        trust: Option<List>,
        header: Key<Free>,
        certificate: Key<Word<words::CertificateHeaders>>,
        ipv4: Key<Ipv4Bits>,
        ipv6: Key<Ipv6Bits>,
        dns_keep: Key<Lasting<{ 60 * SECOND }, { 30 * DAY }>>,
    }

    /// A program that signs its requests, for "signed:NAME" in `rates`.
    pub(in crate::config) RawMonitor (named name::PATTERN) {
        key: Key<Free> = Example,
        keys: Key<Free> = Example,
    }

    /// A route for many hosts, which has all other keys of a route but `host`.
    pub(in crate::config) RawTemplate (named name::PATTERN) {
        hosts: Option<List> = Example,
    }

    /// One form, or one way to sign in.
    pub(in crate::config) RawRoute (named name::PATTERN) {
        patterns("match"): Option<List<Like<RequestPattern>>> = Example,
        /// The profile of a known application; `tollgate presets` lists them.
        preset: Key<PresetName> = Example,
        host: Option<List> = Example Common,
        host_default: Key<Switch> = Common,
        upstream: Option<List<Text<UpstreamUrl>>> = Example Common,
        upstream_host: Key<Text<UpstreamHostValue>> = Example Common,
        health: Key<Text<HealthProbeValue>> = Example Common,
        limits: Option<List> = Example Common,
        case: Key<Word<words::Cases>> = Common,
        cost: Key<CountKind>,
        body: Key<Bytes<1, { 16 * MIB }>> = Common,
        buffer: Key<Word<words::Buffering>>,
        reply_timeout: Key<Timeout> = Example,
        bounds: RawRouteBounds = Part,
        cors: Option<List<Like<CorsOrigin>>> = Example,
        on_error: Key<Word<words::OnErrors>> = Example Common,
        rules: RawRules = Part,
        when: Option<List<Text<FieldValue>>> = Example,
        user: Option<List<Text<FieldValue>>> = Example,
        password: Option<List<Text<FieldValue>>> = Example,
        user_length: Key<Whole<usize, 1, 4096>> = Example,
        step: RawStep = Part,
        refuse: Option<RawNamed<RawPages>> = Common,
        defences: RawDefences = Part,
    }

    /// Pages and texts for refusals of this route.
    pub(in crate::config) RawPages {
        html: Key<Free> = Example,
        json: Key<Free> = Example,
        text: Key<Free> = Example,
        contact: Key<Free> = Example,
        /// Texts in the place of those of the built-in page.
        texts: Vec<RawNamed<RawTexts>>,
    }

    /// An attempt has to pass every limit; a refused attempt takes no token from any of them.
    // A name with a dot is that of a candidate or of a rung.
    pub(in crate::config) RawLimit (named "^[A-Za-z0-9_-]{1,64}$") {
        key: Key<Text<LimitKey>>,
        rate: RawKey<Given<RateOfAttempts>> = Example,
        exempt: Option<List> = Example,
        /// The rate of these clients, or "off" for no limit. A key is a network, "user:NAME", "@users.txt", "header:NAME=VALUE", "signed:NAME", "cert:NAME", "asn:NUMBER" or "country:XX".
        rates: Vec<RawNamed<Given<Like<RateOrOff>>>> = Example,
        ladder: Option<List<Rate>> = Example Own,
        ipv4: Key<Wholes<u8, 0, 32>> = Example,
        ipv6: Key<Wholes<u8, 0, 128>> = Example,
        mode: Key<Word<words::LimitModes>> = Own,
        initial: Key<Whole<u32, 0, 4_294_967_295>> = Example,
        debt: Key<Whole<u32, 0, 4_294_967_295>>,
        routes: Option<List> = Example Own,
        refill: Key<Word<words::Refills>>,
        anchor: Key<Word<words::Anchors>>,
        /// At most this number in any window of whole periods, which are `every` long.
        rolling: RawKey<Given<Rate>> = Example,
        /// The length of a period of `rolling`.
        every: Key<Lasting<1, { 100 * 366 * DAY }>> = Example,
        /// A guaranteed minimum in addition to the bucket of the rate: it is spent first, and always refills.
        floor: Key<Rate> = Example,
        wait: Key<Lasting<0, { 60 * SECOND }>>,
        count: Key<Word<words::Counts>>,
        reset: Key<Word<words::Resets>> = Example,
        bounds: RawBounds = Part,
        on_error: Key<Word<words::OnErrors>> = Example Own,
        unit: Key<Word<words::Units>>,
        bytes: RawBytes = Part,
        max_failures: Key<Whole<u32, 0, 10_000>> = Own,
        sub_limits: RawSubLimits = Part,
        candidate: Key<Anything> = Own,
    }

    /// Where one proxy asks.
    pub(in crate::config) RawEndpoint (named name::PATTERN) {
        kind: Key<Word<words::EndpointKinds>> = Example,
        listen: Option<List<Text<ListenUrl>>> = Example,
        trust: Option<List> = Example,
        refused_status: Key<RefusalStatus> = Example,
        outcome_timeout: Key<Lasting<1, HOUR>>,
        bodies: Key<Switch>,
        answers: Key<Switch>,
    }

    /// Where buckets live.
    pub(in crate::config) RawStore {
        url: Key<Secret>,
        timeout: Key<Lasting<1, { 10 * SECOND }>>,
        on_error: Key<Word<words::OnErrors>>,
        arithmetic: Key<Word<words::Arithmetics>>,
        prefix: Key<Free>,
        secret: Key<Secret>,
        capacity: Key<Whole<usize, 1, 1_000_000_000>>,
        snapshot: Key<Free>,
    }

    /// The answer to a refused attempt.
    pub(in crate::config) RawRefuse {
        status: Key<RefusalStatus>,
        html: Key<Free>,
        json: Key<Free>,
        text: Key<Free>,
        contact: Key<Free>,
        headers: Key<Word<words::ShownLimits>>,
        delay: Key<Lasting<0, { 60 * SECOND }>>,
        pardons: RawPardons = Part,
        jitter: Key<Share<1000>>,
        /// Texts in the place of those of the built-in page.
        texts: Vec<RawNamed<RawTexts>>,
    }

    /// The texts of one language.
    pub(in crate::config) RawTexts (named "^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$") {
        title: Key<Free> = Example,
        wait: Key<Free> = Example,
        now: Key<Free> = Example,
        never: Key<Free> = Example,
        back: Key<Free> = Example,
        request: Key<Free> = Example,
        contact: Key<Free> = Example,
        offer: Key<Free> = Example,
        earn: Key<Free> = Example,
        working: Key<Free> = Example,
        pause: Key<Free> = Example,
        resume: Key<Free> = Example,
        days: Key<Free> = Example,
        hours: Key<Free> = Example,
        minutes: Key<Free> = Example,
        seconds: Key<Free> = Example,
        list: Key<Free> = Example,
        /// The language whose plural forms it has; only for one that is not built in.
        plurals: Key<Word<words::PluralLanguages>> = Extra,
        /// Which way its lines run; only for one that is not built in.
        direction: Key<Word<words::Directions>> = Extra,
    }

    /// Bounds and time-outs.
    pub(in crate::config) RawProxy {
        threads: Key<Whole<usize, 0, 1024>>,
        connections: Key<Connections>,
        client_max: Key<Connections>,
        client_rate: Key<Like<RateOrOff>>,
        header_timeout: Key<Timeout>,
        body_timeout: Key<Timeout>,
        idle_timeout: Key<Timeout>,
        connect_timeout: Key<Timeout>,
        reply_timeout: Key<Timeout>,
        upstream_idle: Key<Lasting<0, DAY>>,
        upstream_max: Key<Connections>,
        resolver: Option<List<Text<DnsServer>>> = Example,
        health_interval: Key<Lasting<SECOND, HOUR>>,
        health_timeout: Key<Lasting<1, { 60 * SECOND }>>,
        health_rises: Key<Whole<u32, 1, 100>>,
        health_falls: Key<Whole<u32, 1, 100>>,
        request_buffer: Key<BodyBuffer>,
        response_buffer: Key<BodyBuffer>,
        body_memory: Key<Bytes<{ 256 * KIB }, { 64 * GIB }>>,
        drain: Key<Lasting<0, DAY>>,
        proxy_protocol: Key<Word<words::ProxyProtocols>>,
        underscores: Key<Word<words::Underscores>>,
        header_case: Key<Word<words::HeaderCases>>,
        strip: Option<List>,
        keep: Option<List>,
    }

    /// Logs.
    pub(in crate::config) RawLog {
        level: Key<Word<words::LogLevels>>,
        format: Key<Word<words::LogFormats>>,
        access: Key<Free>,
        style: Key<Word<words::AccessLogStyles>>,
        clients: Key<Word<words::ShownClients>>,
        decisions: Key<Free>,
        schema: Key<Word<words::DecisionSchemas>>,
        retention: Key<Lasting<0, { 100 * 366 * DAY }>>,
    }

    /// OpenTelemetry.
    pub(in crate::config) RawOtel {
        endpoint: Key<Text<CollectorUrl>> = Example,
        sample: Key<Share<1_000_000>>,
        logs: Key<Word<words::OnOff>>,
    }

    /// For operators.
    pub(in crate::config) RawAdmin {
        listen: Option<List<Text<ListenUrl>>> = Example,
        token: Key<Secret>,
        tokens: RawKey<Vec<RawItem<RawAdminToken>>> = Example,
        audit: Key<Free>,
        exempt: Key<Word<words::OnOff>>,
    }

    /// A token with a name and a role.
    pub(in crate::config) RawAdminToken (requires ["name", "role", "token"]) {
        /// The name, for the log and the audit.
        name: RawKey<Given<Free>>,
        /// What its callers may do.
        role: RawKey<Given<Word<words::TokenRoles>>>,
        /// 16 characters or more.
        token: RawKey<Given<Secret>>,
        /// The only sites or routes that its callers see; all of them if absent.
        sites: Option<List> = Example,
    }

    /// What the kernel does in the gate's place.
    pub(in crate::config) RawKernel {
        nftables: Key<Word<words::OnOff>>,
        table: Key<Free>,
    }

    /// TLS with clients and with applications.
    pub(in crate::config) RawTls {
        certificates: RawKey<Vec<RawItem<RawCertificate>>> = Example,
        acme: Option<RawNamed<RawAcme>>,
        minimum: Key<Word<words::TlsVersions>>,
        redirect: Key<Switch>,
        upstream_ca: Key<Free> = Example,
        client_ca: Key<Free> = Example,
        client_auth: Key<Word<words::ClientAuths>> = Example,
    }

    /// Certificates that an authority issues.
    pub(in crate::config) RawAcme {
        domains: Option<List<Text<CertifiedName>>> = Example,
        email: Key<Text<MailAddress>> = Example,
        directory: Key<Text<DirectoryUrl>>,
        profile: Key<Text<ProfileName>> = Example,
        eab: Option<RawNamed<RawEab>> = Example,
        validation("challenge"): Key<Word<words::ValidationMethods>>,
        dns_hook: Option<List> = Example,
        state: Key<Free>,
        directory_ca: Key<Free> = Example,
        on_demand: Option<RawNamed<RawOnDemand>>,
    }

    /// Certificates that are ordered when a client first asks for their name.
    pub(in crate::config) RawOnDemand (requires ["allow"]) {
        allow: Option<List> = Example,
        max: Key<Whole<usize, 1, 10_000>>,
        rate: Key<Rate>,
        wait: Key<Lasting<1, { 9 * SECOND }>>,
    }

    /// The account at an authority to which the gate's account belongs.
    pub(in crate::config) RawEab (requires ["key_id", "key"]) {
        /// The name that the authority gave the key.
        key_id: Key<Text<KeyId>> = Example,
        /// The key in base64, or where it is: `${file:PATH}` or `${NAME}`.
        key: Key<Secret> = Example,
    }

    /// A certificate and its key, by the paths of their files.
    pub(in crate::config) RawCertificate (requires ["cert", "key"]) {
        /// The chain in PEM, the server's certificate first.
        cert: RawKey<Given<Free>>,
        /// The key of the certificate in PEM.
        key: RawKey<Given<Free>>,
    }
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

#[cfg(test)]
mod tests {
    use tollgate_grammar::table::{KeyType, TableType};

    use super::*;

    /// The lines of the sample in tables of this name and below.
    fn sample(table: &str) -> String {
        let text = include_str!("../../config.toml");
        let mut within = table.is_empty();
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

    /// The keys of a table and of those below, each with its table at the top.
    fn keys(top: &'static str, table: TableType) -> Vec<(&'static str, &'static str)> {
        let mut found = Vec::new();
        for key in table.keys {
            let below = if top.is_empty() { key.name } else { top };
            let mut kind = key.kind;
            while let KeyType::Named { entry, .. } = kind {
                kind = *entry;
            }
            match kind {
                // config.toml describes the keys of rules in a sentence, and those of texts at `[refuse]`.
                KeyType::TableList(_) if top == "route" => {}
                KeyType::Table(_) if top == "route" && key.name == "texts" => {}
                KeyType::Table(table) | KeyType::TableList(table) => found.extend(keys(below, table)),
                KeyType::Value(_) | KeyType::Secret | KeyType::Named { .. } => {}
            }
            if !top.is_empty() {
                found.push((top, key.name));
            }
        }
        found
    }

    #[test]
    fn the_sample_names_every_key() {
        let keys = keys("", TableType::of::<RawFile>());
        assert!(keys.len() > 150, "{}", keys.len());
        for (table, key) in keys {
            let is_named = |line: &str| {
                let line = line.split('#').next().unwrap_or_default();
                line.split_once('=').is_some_and(|(name, _)| name.trim() == key)
                    || line.trim_end().ends_with(&format!(".{key}]"))
                    || line.starts_with("[") && line.contains(&format!(".{key}."))
                    || line.contains(&format!(" {key} = "))
            };
            assert!(sample(table).lines().any(is_named), "config.toml does not name `{key}` of [{table}]");
        }
    }
}
