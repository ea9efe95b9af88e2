//! `tls.client_ca`, `tls.client_auth` and `client.certificate`: the certificates of clients.

use tollgate_grammar::kind::{Checked as _, Given, Word};
use tollgate_grammar::{Findings, Located, RawNamed};

use super::super::raw;
use super::super::words::ValidationMethods;
use super::context::CheckContext;
use crate::net::tls::ClientAuth;
use crate::policy::Limit;
use crate::policy::client_fact::ClientFact;
use crate::policy::key::KeyPart;
use crate::proxy::request::client_cert::CertificateHeader;

/// How clients may come.
#[derive(Clone, Copy)]
pub(super) struct ClientListeners {
    pub(super) has_tls: bool,
    /// Whether one without TLS serves more than redirects.
    pub(super) has_plain: bool,
}

/// The authorities of clients' certificates; `None` if no client is asked for one.
pub(super) fn check(
    cx: &mut CheckContext<'_>,
    listen: ClientListeners,
    f: &mut Findings,
) -> Option<ClientAuth> {
    let raw = cx.raw;
    let is_required = raw.tls.client_auth.checked(f).unwrap_or(false);
    let is_needed = cx.limits.iter().flatten().any(needs_certificates);
    let is_passed_on = check_header(cx, is_needed, f);
    let Some(path) = &raw.tls.client_ca else {
        if let Some(word) = &raw.tls.client_auth {
            f.error(&word.spot, "`tls.client_ca` is missing", AUTHORITIES);
        }
        let message = "no client is asked for a certificate: `tls.client_ca` is missing";
        if !is_passed_on {
            refuse_limits(cx, message, AUTHORITIES, f);
        }
        return None;
    };
    if !listen.has_tls && !is_passed_on {
        let message = "no client shows a certificate: a listener with TLS is missing";
        refuse_limits(cx, message, LISTENER, f);
    }
    warn(path, listen, is_required, is_needed, f);
    refuse_handshakes_of_authorities(raw, is_required, f);
    match ClientAuth::from_pem(&cx.files.bytes(&path.value, &path.spot, f)?, is_required) {
        Ok(clients) => Some(clients),
        Err(why) => {
            let hint = "the authorities that sign clients' certificates, in PEM";
            f.error(&path.spot, format!("`{}` {why}", path.value), hint);
            None
        }
    }
}

/// `client.certificate`. Returns whether a proxy passes on certificates.
fn check_header(cx: &CheckContext<'_>, is_needed: bool, f: &mut Findings) -> bool {
    let CheckContext { raw, client, .. } = cx;
    let given = raw.client.certificate.as_ref().filter(|_| client.certificate != CertificateHeader::Off);
    let Some(given) = given else { return false };
    if client.trust.is_empty() && !client.trust_unix {
        let hint = "client.trust = [\"10.0.0.5\"] names the proxies that send the header";
        f.warning(&given.spot, "no peer may pass on a certificate: `client.trust` is empty", hint);
    } else if !is_needed {
        f.warning(&given.spot, UNUSED, USES);
    }
    true
}

fn needs_certificates(limit: &Limit) -> bool {
    limit.key.contains(&KeyPart::Fact(ClientFact::Cert)) || limit.rates.lists_certificates()
}

fn warn(
    path: &Located<String>,
    listen: ClientListeners,
    is_required: bool,
    is_needed: bool,
    f: &mut Findings,
) {
    if !listen.has_tls && !is_needed {
        f.warning(&path.spot, "no listener speaks TLS with clients", LISTENER);
    } else if !is_required && !is_needed {
        f.warning(
            &path.spot,
            UNUSED,
            "client_auth = \"require\", key = \"cert\", or \"cert:NAME\" in the rates of a limit",
        );
    } else if is_required && listen.has_plain {
        let message = "another listener without TLS serves clients that show no certificate";
        f.warning(&path.spot, message, "redirect = true, or no http:// in `listen`");
    }
}

fn refuse_limits(cx: &CheckContext<'_>, message: &str, hint: &str, f: &mut Findings) {
    for (RawNamed { name, value }, limit) in cx.raw.limits.iter().zip(&cx.limits) {
        let Some(limit) = limit.as_ref().filter(|limit| needs_certificates(limit)) else { continue };
        let rate = || value.rates.iter().find(|rate| rate.name.value.starts_with("cert:"));
        let spot = match limit.rates.lists_certificates() {
            true => rate().map(|rate| &rate.name.spot),
            false => value.key.as_ref().map(|key| &key.spot),
        };
        f.error(spot.unwrap_or(&name.spot), message, hint);
    }
}

/// An authority that checks a name in a handshake shows no certificate.
fn refuse_handshakes_of_authorities(raw: &raw::RawFile, is_required: bool, f: &mut Findings) {
    let by_request = |given: &Given<Word<ValidationMethods>>| given.value != "tls-alpn-01";
    let acme = raw.tls.acme.as_ref().filter(|_| is_required);
    if let Some(table) = acme.filter(|acme| !acme.value.validation.as_ref().is_some_and(by_request)) {
        let message = "an authority that checks a name by a handshake has no certificate to show";
        f.error(&table.name.spot, message, "challenge = \"http-01\", or client_auth = \"request\"");
    }
}

const AUTHORITIES: &str = "add client_ca = \"clients.pem\" to [tls]";
const UNUSED: &str = "nothing depends on the certificates of clients";
const USES: &str = "key = \"cert\", or \"cert:NAME\" in the rates of a limit";
const LISTENER: &str = "as in listen = \"https://[::]:443\"";
