//! `tls.acme`: the names for which an authority issues certificates to the gate itself.
//!
//! It reads the certificates of earlier orders. A missing or broken one is not a mistake: the gate orders a new one
//! while it runs (`app/acme.rs`).

use tollgate_grammar::kind::Checked as _;
use tollgate_grammar::list::distinct;
use tollgate_grammar::{Findings, RawNamed, Spot, Syntax as _};

use super::super::raw;
use super::super::values::{CertifiedName, DirectoryUrl, MailAddress, ProfileName};
use super::files::Files;
use super::{dns_hook, external_account, on_demand};
use crate::net::listener::ListenAddress;
use crate::net::tls::acme::state_name;
use crate::net::tls::{AcmeSettings, Certificate, Trust, ValidationMethod, trust};
use crate::time::Span;

/// The settings, with the certificates that are there; `None` without the table, or after a mistake was reported.
/// `handshake` is the time that a handshake has.
pub(super) fn check(
    RawNamed { name, value: raw }: &RawNamed<raw::RawAcme>,
    listen: &[ListenAddress],
    handshake: Span,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> Option<AcmeSettings> {
    let chosen = raw.validation.checked(f);
    let method = chosen.unwrap_or_default();
    let dns_hook = dns_hook::check(raw, method, files, f);
    if chosen.is_some() || raw.validation.is_none() {
        warn_of_ports(method, raw.validation.as_ref().map_or(&name.spot, |text| &text.spot), listen, f);
    }
    let domains = domains(raw, &name.spot, f);
    let email = raw.email.checked(f).map(|MailAddress(email)| email);
    let profile = raw.profile.checked(f).map(|ProfileName(profile)| profile);
    let external_account = raw.eab.as_ref().map(|eab| external_account::check(eab, files, f));
    let directory = match &raw.directory {
        Some(given) => given.checked(f),
        None => DIRECTORY.parse().ok(),
    };
    let trust = roots(raw, &name.spot, files, f);
    let (DirectoryUrl(directory), trust) = (directory?, trust?);
    let external_account = match external_account {
        Some(account) => Some(account?),
        None => None,
    };
    let state = raw.state.as_ref().map_or(STATE, |state| &state.value);
    let state = files.resolve_state(state).join(state_name(&directory));
    let mut settings = AcmeSettings {
        domains: Vec::new(),
        on_demand: None,
        email,
        directory,
        external_account,
        profile,
        validation: method,
        dns_hook,
        state,
        trust,
    };
    settings.domains = domains
        .into_iter()
        .map(|name| {
            let pem = files.if_there(settings.file(&name));
            let certificate = pem.and_then(|pem| Certificate::from_pem(&pem, &pem, &name).ok());
            (name, certificate)
        })
        .collect();
    if let Some(table) = &raw.on_demand {
        settings.on_demand = Some(on_demand::check(table, &settings, handshake, files, f)?);
    }
    Some(settings)
}

/// Authorities connect to fixed ports, which something in front of the gate may map to others.
fn warn_of_ports(method: ValidationMethod, spot: &Spot, listen: &[ListenAddress], f: &mut Findings) {
    let is_at = |address: &ListenAddress, tls: bool, port: u16| match address {
        ListenAddress::Tls(address) => tls && address.port() == port,
        ListenAddress::Tcp(address) => !tls && address.port() == port,
        // Their ports show only when systemd passes the sockets.
        ListenAddress::Systemd { tls: is_tls, .. } => *is_tls == tls,
        ListenAddress::Unix(_) => false,
    };
    let (tls, port, word) = match method {
        ValidationMethod::TlsAlpn01 => (true, 443, "https"),
        ValidationMethod::Http01 => (false, 80, "http"),
        ValidationMethod::Dns01 => return,
    };
    if !listen.iter().any(|address| is_at(address, tls, port)) {
        let message = format!("the authority connects to port {port}, where no {word}:// listener is");
        f.warning(spot, message, format!("listen = \"{word}://[::]:{port}\" too, unless a port is mapped"));
    }
}

fn domains(raw: &raw::RawAcme, spot: &Spot, f: &mut Findings) -> Vec<String> {
    let Some(list) = &raw.domains else {
        if raw.on_demand.is_some() {
            return Vec::new();
        }
        f.error(spot, "`domains` is missing", "as in domains = [\"www.example.org\"]");
        return Vec::new();
    };
    if list.is_empty || list.value.len() > MAX_DOMAINS {
        f.error(&list.spot, "1 to 100 names belong here", "one certificate is ordered for each of them");
    }
    let names = distinct(Some(&**list), f).into_iter();
    names.filter_map(|name| CertifiedName::read(name, f)).map(|CertifiedName(name)| name).collect()
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
