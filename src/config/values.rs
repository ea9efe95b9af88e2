//! The small grammars of the file: prefixes, addresses, keys.
//!
//! Each is a type that only a valid text can make (`FromStr`), and an error names the part of the text that the caret
//! points at. Nothing here knows the key that a text belongs to.

mod acme;
mod address;
mod authority;
mod count;
mod dns;
mod field;
mod health;
mod key;
mod pattern;
mod prefix;
mod status;
mod syslog;

pub use acme::{CertifiedName, DirectoryUrl, Domain, KeyId, MailAddress, ProfileName};
pub use address::{CollectorUrl, ListenUrl, UpstreamHostValue, UpstreamUrl};
pub use count::{CountKind, CountValue};
pub use dns::DnsServer;
pub use field::FieldValue;
pub use health::HealthProbeValue;
pub use key::LimitKey;
pub use pattern::{CorsOrigin, PresetName, RequestPattern};
pub use prefix::Prefix;
pub use status::StatusKind;
pub use syslog::SyslogTarget;
pub use tollgate_grammar::duration::{Duration, in_words};
pub use tollgate_grammar::rate::{RateOrOff, RateValue};
pub use tollgate_grammar::size::Size;
pub use tollgate_grammar::{Mistake, leading_number};
