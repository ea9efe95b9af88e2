//! `tls.acme`: the names for which an authority issues certificates to the gate itself.
//!
//! It reads the certificates that are there already. One that is missing or broken is no mistake: the gate orders a new
//! one while it runs (`app/acme.rs`).

use std::net::IpAddr;

use http::Uri;

use super::super::diagnostic::{Findings, Spot};
use super::super::document::Located;
use super::super::raw::{self, RawNamed};
use super::fields::{distinct, one_of};
use super::files::Files;
use crate::net::listener::ListenAddress;
use crate::net::tls::acme::state_name;
use crate::net::tls::{AcmeSettings, Certificate, ChallengeKind, Trust, trust};

/// The settings, with the certificates that are there; `None` without the table, or after a mistake was reported.
pub(super) fn check(
    RawNamed { name, value: raw }: &RawNamed<raw::RawAcme>,
    listen: &[ListenAddress],
    files: &mut Files<'_>,
    f: &mut Findings,
) -> Option<AcmeSettings> {
    let challenges = [("tls-alpn-01", ChallengeKind::TlsAlpn01), ("http-01", ChallengeKind::Http01)];
    let chosen = one_of(raw.challenge.as_ref(), &challenges, f);
    let challenge = chosen.unwrap_or_default();
    if chosen.is_some() || raw.challenge.is_none() {
        warn_of_ports(challenge, raw.challenge.as_ref().map_or(&name.spot, |text| &text.spot), listen, f);
    }
    let domains = domains(raw, &name.spot, f);
    let email = raw.email.as_ref().and_then(|email| address(email, f));
    let directory = directory(raw.directory.as_ref(), f);
    let trust = roots(raw, &name.spot, files, f);
    let (directory, trust) = (directory?, trust?);
    let state = raw.state.as_ref().map_or(STATE, |state| &state.value);
    let state = files.resolve_state(state).join(state_name(&directory));
    let mut settings = AcmeSettings { domains: Vec::new(), email, directory, challenge, state, trust };
    settings.domains = domains
        .into_iter()
        .map(|name| {
            let pem = files.if_there(settings.file(&name));
            let certificate = pem.and_then(|pem| Certificate::from_pem(&pem, &pem, &name).ok());
            (name, certificate)
        })
        .collect();
    Some(settings)
}

/// Authorities connect to fixed ports, which something in front of the gate may map to others.
fn warn_of_ports(challenge: ChallengeKind, spot: &Spot, listen: &[ListenAddress], f: &mut Findings) {
    let is_at = |address: &ListenAddress, tls: bool, port: u16| match address {
        ListenAddress::Tls(address) => tls && address.port() == port,
        ListenAddress::Tcp(address) => !tls && address.port() == port,
        // Their ports show only when systemd passes the sockets.
        ListenAddress::Systemd { tls: is_tls, .. } => *is_tls == tls,
        ListenAddress::Unix(_) => false,
    };
    let (tls, port, word) = match challenge {
        ChallengeKind::TlsAlpn01 => (true, 443, "https"),
        ChallengeKind::Http01 => (false, 80, "http"),
    };
    if !listen.iter().any(|address| is_at(address, tls, port)) {
        let message = format!("the authority connects to port {port}, where no {word}:// listener is");
        f.warning(spot, message, format!("listen = \"{word}://[::]:{port}\" too, unless a port is mapped"));
    }
}

fn domains(raw: &raw::RawAcme, spot: &Spot, f: &mut Findings) -> Vec<String> {
    let Some(list) = &raw.domains else {
        f.error(spot, "`domains` is missing", "as in domains = [\"www.example.org\"]");
        return Vec::new();
    };
    if list.is_empty || list.value.len() > MAX_DOMAINS {
        f.error(&list.spot, "1 to 100 names belong here", "one certificate is ordered for each of them");
    }
    let names = distinct(Some(list), f).into_iter();
    names.filter_map(|name| domain(name, f)).collect()
}

fn domain(name: &Located<String>, f: &mut Findings) -> Option<String> {
    let text = name.value.to_ascii_lowercase();
    let hint = match text.as_str() {
        _ if text.starts_with("*.") => "a wildcard can only be proved by DNS: name each host",
        _ if text.parse::<IpAddr>().is_ok() => "a name, not an address",
        _ if !text.is_ascii() => "as DNS has it, such as xn--bcher-kva.example",
        _ if is_name(&text) => return Some(text),
        _ => "such as www.example.org",
    };
    f.error(&name.spot, format!("`{}` is not a name of a host", name.value), hint);
    None
}

/// RFC 1123, section 2.1. A last label of digits would make it an address.
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        (1..=63).contains(&bytes.len())
            && bytes.iter().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253 && text.split('.').all(is_label) && !last.bytes().all(|byte| byte.is_ascii_digit())
}

fn address(email: &Located<String>, f: &mut Findings) -> Option<String> {
    let parts = email.value.split_once('@');
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if parts.is_some_and(|(user, host)| is_plain(user) && is_plain(host) && !host.contains('@')) {
        return Some(email.value.clone());
    }
    f.error(&email.spot, format!("`{}` is not an address of mail", email.value), "such as admin@example.org");
    None
}

fn directory(text: Option<&Located<String>>, f: &mut Findings) -> Option<Uri> {
    let given = text.map_or(DIRECTORY, |text| &text.value);
    let parsed = given
        .parse::<Uri>()
        .ok()
        .filter(|uri| uri.scheme_str() == Some("https") && uri.host().is_some_and(|host| !host.is_empty()));
    if let (None, Some(text)) = (&parsed, text) {
        f.error(&text.spot, format!("`{given}` is not the URL of a directory"), DIRECTORY_HINT);
    }
    parsed
}

/// The roots that the authority's server is checked against.
fn roots(raw: &raw::RawAcme, spot: &Spot, files: &mut Files<'_>, f: &mut Findings) -> Option<Trust> {
    let (spot, roots) = match &raw.directory_ca {
        Some(ca) => (&ca.spot, trust::of_pem(&files.bytes(&ca.value, &ca.spot, f)?)),
        None if files.is_sealed => return None,
        None => (spot, trust::system()),
    };
    let roots = roots.map_err(|error| error.to_string());
    match roots.and_then(|roots| Trust::new(roots).map_err(|error| error.to_string())) {
        Ok(trust) => Some(trust.for_http1()),
        Err(why) => {
            f.error(spot, why, "tls.acme.directory_ca names a file of certificates in PEM");
            None
        }
    }
}

const MAX_DOMAINS: usize = 100;
const STATE: &str = "acme";
const DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";
const DIRECTORY_HINT: &str = "such as https://acme-v02.api.letsencrypt.org/directory";
