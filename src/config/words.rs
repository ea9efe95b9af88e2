//! The words that keys take, and what each means.

use tollgate_grammar::kind::Words;
use tollgate_grammar::words;

use crate::bucket::PeriodStart;
use crate::net::proxy_protocol::ProxyProtocolVersion;
use crate::net::tls::{MinVersion, ValidationMethod};
use crate::observe::admin::OperatorRole;
use crate::observe::settings::{AccessLogStyle, ClientsShown, DecisionSchema, LogFormat, LogLevel};
use crate::policy::canonical::Case;
use crate::policy::{ChargeOn, Mode, Unit};
use crate::proxy::endpoint::EndpointKind;
use crate::proxy::headers::passed::HeaderCase;
use crate::proxy::request::client_cert::CertificateHeader;
use crate::proxy::respond::{Language, ShowLimits};
use crate::store::shared::{Arithmetic, OnError};

words! {
    /// Whether something is on.
    pub(super) OnOff: bool { "on" => true, "off" => false, }
}
words! {
    /// Whether every limit only observes.
    pub(super) FileModes: bool { "enforce" => false, "observe" => true, }
}
words! {
    /// Whether the policy is in the store.
    pub(super) PolicyPlaces: bool { "file" => false, "store" => true, }
}
words! {
    /// Whether the file is watched.
    pub(super) Reloads: bool { "signal" => false, "watch" => true, }
}
words! {
    /// Whether letter case distinguishes paths.
    pub(super) Cases: Case { "insensitive" => Case::Insensitive, "sensitive" => Case::Sensitive, }
}
words! {
    /// Whether bodies stream.
    pub(super) Buffering: bool { "on" => false, "off" => true, }
}
words! {
    /// What decides without a store.
    pub(super) OnErrors: OnError {
        "local" => OnError::Local,
        "allow" => OnError::Allow,
        "deny" => OnError::Deny,
    }
}
words! {
    /// What the callers with a token may do.
    pub(super) TokenRoles: OperatorRole {
        "read" => OperatorRole::Read,
        "unlock" => OperatorRole::Unlock,
        "operate" => OperatorRole::Operate,
    }
}
/// What a limit does with its decisions.
pub(super) enum LimitModes {}
impl Words for LimitModes {
    type Value = Mode;
    const WORDS: &'static [(&'static str, Mode)] = &Mode::WORDS;
}
/// How tokens come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refill {
    Continuous,
    Interval,
}
words! {
    /// How tokens come back.
    pub(super) Refills: Refill { "continuous" => Refill::Continuous, "interval" => Refill::Interval, }
}
words! {
    /// When a period begins.
    pub(super) Anchors: PeriodStart { "first" => PeriodStart::First, "clock" => PeriodStart::Clock, }
}
words! {
    /// What costs a token.
    pub(super) Counts: ChargeOn { "attempts" => ChargeOn::Attempts, "failures" => ChargeOn::Failures, }
}
words! {
    /// What fills a bucket.
    pub(super) Resets: () { "success" => (), }
}
words! {
    /// What is counted; `None` is bytes, of which no [`Limit`](crate::policy::Limit) knows.
    pub(super) Units: Option<Unit> {
        "attempts" => Some(Unit::Attempts),
        "users" => Some(Unit::Users),
        "passwords" => Some(Unit::Passwords),
        "clients" => Some(Unit::Clients),
        "bytes" => None,
    }
}
words! {
    /// The kind of proxy that asks at an endpoint.
    pub(super) EndpointKinds: EndpointKind {
        "forward-auth" => EndpointKind::ForwardAuth,
        "envoy-rls" => EndpointKind::EnvoyRls,
        "auth-policy" => EndpointKind::AuthPolicy,
        "ext-authz" => EndpointKind::ExtAuthz,
        "ext-proc" => EndpointKind::ExtProc,
    }
}
words! {
    /// Where steps of buckets are calculated.
    pub(super) Arithmetics: Arithmetic { "store" => Arithmetic::Store, "gate" => Arithmetic::Gate, }
}
words! {
    /// When clients see their limits.
    pub(super) ShownLimits: ShowLimits {
        "refused" => ShowLimits::Refused,
        "always" => ShowLimits::Always,
        "legacy" => ShowLimits::Legacy,
        "never" => ShowLimits::Never,
    }
}
words! {
    /// Versions of the PROXY protocol.
    pub(super) ProxyProtocols: Option<ProxyProtocolVersion> {
        "off" => None,
        "v1" => Some(ProxyProtocolVersion::V1),
        "v2" => Some(ProxyProtocolVersion::V2),
        "any" => Some(ProxyProtocolVersion::Any),
    }
}
words! {
    /// Whether odd names of headers pass.
    pub(super) Underscores: bool { "drop" => false, "pass" => true, }
}
words! {
    /// How names of headers are written.
    pub(super) HeaderCases: HeaderCase { "preserve" => HeaderCase::Preserve, "lower" => HeaderCase::Lower, }
}
words! {
    /// How much is logged.
    pub(super) LogLevels: LogLevel {
        "error" => LogLevel::Error,
        "warn" => LogLevel::Warn,
        "info" => LogLevel::Info,
        "debug" => LogLevel::Debug,
        "trace" => LogLevel::Trace,
    }
}
words! {
    /// How messages are written.
    pub(super) LogFormats: LogFormat {
        "auto" => LogFormat::Auto,
        "text" => LogFormat::Text,
        "json" => LogFormat::Json,
    }
}
words! {
    /// How the access log is written.
    pub(super) AccessLogStyles: AccessLogStyle {
        "combined" => AccessLogStyle::Combined,
        "json" => AccessLogStyle::Json,
    }
}
words! {
    /// How a line about a decision is written.
    pub(super) DecisionSchemas: DecisionSchema {
        "tollgate" => DecisionSchema::Tollgate,
        "ocsf" => DecisionSchema::Ocsf,
        "ecs" => DecisionSchema::Ecs,
    }
}
words! {
    /// How addresses are written.
    pub(super) ShownClients: ClientsShown {
        "full" => ClientsShown::Full,
        "prefix" => ClientsShown::Prefix,
        "hash" => ClientsShown::Hash,
    }
}
words! {
    /// The oldest version of TLS.
    pub(super) TlsVersions: MinVersion { "1.2" => MinVersion::Tls12, "1.3" => MinVersion::Tls13, }
}
words! {
    /// Whether clients need certificates.
    pub(super) ClientAuths: bool { "request" => false, "require" => true, }
}
words! {
    /// How an authority checks a name.
    pub(super) ValidationMethods: ValidationMethod {
        "tls-alpn-01" => ValidationMethod::TlsAlpn01,
        "http-01" => ValidationMethod::Http01,
        "dns-01" => ValidationMethod::Dns01,
    }
}
words! {
    /// How a proxy passes on its client's certificate.
    pub(super) CertificateHeaders: CertificateHeader {
        "off" => CertificateHeader::Off,
        "client-cert" => CertificateHeader::ClientCert,
        "xfcc" => CertificateHeader::Xfcc,
    }
}
words! {
    /// The languages whose plural forms another one can have.
    pub(super) PluralLanguages: Language {
        "en" => Language::English,
        "pl" => Language::Polish,
        "ja" => Language::Japanese,
        "ar" => Language::Arabic,
    }
}
words! {
    /// Which way lines run: whether from right to left.
    pub(super) Directions: bool { "ltr" => false, "rtl" => true, }
}
