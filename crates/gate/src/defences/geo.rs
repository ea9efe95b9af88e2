//! `[geo]`: the files that say where addresses come from, and the rates of a limit for autonomous systems and countries.
//!
//! The policy reads the files (`crates/policy/src/geo.rs`), and looks up the client of each attempt.

use std::sync::Arc;

use tollgate_grammar::kind::{Free, Key};
use tollgate_grammar::{Findings, Located, Spot, tables};

use super::{DefenceFiles, KeyedLimit};
use crate::policy::client_fact::{AddressFact, ClientFact, ClientLookup};
use crate::policy::geo::{Database, DatabaseKind, Geo};
use crate::policy::key::KeyPart;

tables! {
    /// The table of what finds out facts of clients.
    pub RawLookups {
        geo: RawGeo,
    }

    /// Where addresses come from.
    pub RawGeo {
        asn: Key<Free> = Example,
        country: Key<Free> = Example,
    }
}

/// The files; `None` without any.
pub fn lookup(
    RawLookups { geo: raw }: &RawLookups,
    limits: &[KeyedLimit<'_>],
    files: &mut dyn DefenceFiles,
    f: &mut Findings,
) -> Option<Arc<dyn ClientLookup>> {
    let [asn, country] = [(&raw.asn, DatabaseKind::Asn), (&raw.country, DatabaseKind::Country)]
        .map(|(path, kind)| path.as_ref().and_then(|path| database(path, kind, files, f)));
    for KeyedLimit { key, .. } in limits.iter().filter(|_| raw.asn.is_none()).filter(|limit| is_by_asn(limit))
    {
        f.error(key, "no file tells which autonomous system an address is in", ASN_FILE);
    }
    warn(raw, limits, f);
    match (&asn, &country) {
        (None, None) => None,
        _ => Some(Arc::new(Geo { asn, country })),
    }
}

/// Adds a rate for clients by what their addresses tell, as in `asn:64500`.
pub fn add_rate(
    RawLookups { geo: raw }: &RawLookups,
    fact: &str,
    spot: &Spot,
    add: impl FnOnce(AddressFact) -> bool,
    f: &mut Findings,
) {
    let (kind, value) = fact.split_once(':').unwrap_or_default();
    let (file, fact, what, no_value, hints) = match kind {
        ASN => {
            let fact = value.parse().ok().map(AddressFact::Asn);
            let hints = (ASN_FILE, "as in \"asn:64500\"");
            (&raw.asn, fact, "autonomous system", "the number of an autonomous system", hints)
        }
        _ => {
            let fact = value.parse().ok().map(AddressFact::Country);
            let hints = (COUNTRY_FILE, "its two letters, as in \"country:DE\"");
            (&raw.country, fact, "country", "a country", hints)
        }
    };
    match fact.map(add) {
        _ if file.is_none() => f.error(spot, format!("no file tells which {what} an address is in"), hints.0),
        Some(true) => {}
        Some(false) => f.error(spot, format!("this {what} has a rate already"), ""),
        None => f.error(spot, format!("`{value}` is not {no_value}"), hints.1),
    }
}

fn database(
    path: &Located<String>,
    kind: DatabaseKind,
    files: &mut dyn DefenceFiles,
    f: &mut Findings,
) -> Option<Database> {
    let bytes = files.bytes(&path.value, &path.spot, f)?;
    match Database::new(bytes, kind) {
        Ok(database) => Some(database),
        Err(error) => {
            let message = format!("cannot read `{}`", files.resolve(&path.value).display());
            f.error(&path.spot, message, error.to_string());
            None
        }
    }
}

/// Warns of a file that no limit needs: each attempt would look its client up for nothing.
fn warn(raw: &RawGeo, limits: &[KeyedLimit<'_>], f: &mut Findings) {
    let lists = |is: fn(&AddressFact) -> bool| limits.iter().any(|of| of.limit.rates.address_facts().any(is));
    let needs_asn = limits.iter().any(is_by_asn) || lists(|fact| matches!(fact, AddressFact::Asn(_)));
    let needs_country = lists(|fact| matches!(fact, AddressFact::Country(_)));
    for (path, is_needed, hint) in [
        (&raw.asn, needs_asn, "as in key = \"asn\", or \"asn:64500\" in the rates of a limit"),
        (&raw.country, needs_country, "as in \"country:XX\" in the rates of a limit"),
    ] {
        if let Some(path) = path.as_ref().filter(|_| !is_needed) {
            f.warning(&path.spot, "no limit asks where a client comes from", hint);
        }
    }
}

fn is_by_asn(KeyedLimit { limit, .. }: &KeyedLimit<'_>) -> bool {
    limit.key.contains(&KeyPart::Fact(ClientFact::Asn))
}

/// The table, for people.
pub const LOOKUP: &str = "geo";
const ASN: &str = "asn";
/// The facts of addresses for which a limit may have other rates.
pub const RATED_FACTS: [&str; 2] = [ASN, "country"];
const ASN_FILE: &str = "add [geo] with asn = \"GeoLite2-ASN.mmdb\"";
const COUNTRY_FILE: &str = "add [geo] with country = \"GeoLite2-Country.mmdb\"";
