//! `tls.acme.on_demand`: the names for which clients may cause an order, and the certificates of earlier orders.
//!
//! Those are the files of the state directory whose names the list still allows.

use std::sync::Arc;

use tollgate_grammar::kind::{Checked as _, Key, Kind};
use tollgate_grammar::{Findings, Located, RawNamed, Syntax as _};

use super::super::raw::RawOnDemand;
use super::super::values::{CertifiedName, RateValue, in_words};
use super::files::{Files, read_file};
use super::list_file;
use crate::bucket::Continuous;
use crate::net::tls::{AcmeSettings, AllowedNames, Certificate, OnDemandSettings};
use crate::time::{Clock, Span};

/// `None` after a mistake was reported.
pub(super) fn check(
    RawNamed { name, value: raw }: &RawNamed<RawOnDemand>,
    acme: &AcmeSettings,
    handshake: Span,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> Option<OnDemandSettings> {
    let Some(list) = &raw.allow else {
        f.error(&name.spot, "`allow` is missing", EXAMPLE);
        return None;
    };
    let mut allow = AllowedNames::default();
    for entry in &list.value {
        match entry.value.strip_prefix('@') {
            Some(path) => {
                list_file::read(path, &entry.spot, files, f, |entry, f| add(&entry, &mut allow, f));
            }
            None => {
                add(entry, &mut allow, f);
            }
        }
    }
    if list.is_empty {
        f.error(&list.spot, "no name is allowed", EXAMPLE);
    }
    let max = raw.max.checked(f).unwrap_or(MAX);
    let rate = match &raw.rate {
        Some(given) => {
            let RateValue { count, period, burst, .. } = given.checked(f)?;
            let bucket = Continuous::new(count, period, burst);
            bucket.map_err(|error| f.error(&given.spot, error.to_string(), "")).ok()?;
            (count, period, burst)
        }
        None => RATE,
    };
    let kept = if files.is_sealed { Vec::new() } else { kept(acme, &allow, max) };
    Some(OnDemandSettings { allow: Arc::new(allow), max, rate, wait: wait(&raw.wait, handshake, f), kept })
}

/// How long a handshake waits, which needs some of its time for itself.
fn wait<K: Kind<Raw = String, Value = Span>>(given: &Key<K>, handshake: Span, f: &mut Findings) -> Span {
    let most = handshake.minus(HANDSHAKE).max(Span::from_millis(1));
    let wait = given.checked(f);
    if let (Some(given), Some(wait)) = (given, wait)
        && wait > most
    {
        let message =
            format!("`{}` is longer than a handshake of {} can wait", given.value, in_words(handshake));
        f.error(&given.spot, message, format!("at most {}; or raise proxy.header_timeout", in_words(most)));
    }
    wait.unwrap_or(WAIT).min(most)
}

fn add(entry: &Located<String>, allow: &mut AllowedNames, f: &mut Findings) -> bool {
    if entry.value.parse::<std::net::IpAddr>().is_ok() {
        f.error(&entry.spot, "a client cannot ask for an address", "list it in `domains`");
        return false;
    }
    let name = CertifiedName::read(entry, f);
    name.map(|CertifiedName(name)| allow.insert(&name)).is_some()
}

/// The certificates of earlier orders. One that is broken or has ended is as good as none.
fn kept(acme: &AcmeSettings, allow: &AllowedNames, max: usize) -> Vec<(String, Certificate)> {
    let now = Clock::system().now();
    let files = std::fs::read_dir(&acme.state).into_iter().flatten().flatten();
    let names = files.filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".pem")?.to_owned()));
    let names = names.filter(|name| allow.has(name) && !acme.domains.iter().any(|(known, _)| known == name));
    let certificates = names.filter_map(|name| {
        let pem = read_file(&acme.file(&name)).ok()?;
        let certificate = Certificate::from_pem(&pem, &pem, &name).ok()?;
        (certificate.expires() > now).then_some((name, certificate))
    });
    certificates.take(max).collect()
}

const MAX: usize = 1000;
/// Ten an hour, and ten at once.
const RATE: (u32, Span, u32) = (10, Span::from_secs(3600), 10);
const WAIT: Span = Span::from_secs(8);
/// What is left of a handshake's time for the handshake.
const HANDSHAKE: Span = Span::from_secs(1);
const EXAMPLE: &str = "as in allow = [\"*.example.org\"], or \"@names.txt\" with one name a line";
