//! `[tls]`: certificates and keys, and the roots that upstream certificates are checked against.
//!
//! It reads the files and checks that certificates and keys belong together, so that a valid configuration can be used.
//! An expired certificate is only a warning, because a gate that does not start serves no client. A running gate
//! refuses to reload one and keeps what it has (`app/reload.rs`).

use tollgate_grammar::kind::Checked as _;
use tollgate_grammar::{Findings, Located, RawItem};

use super::super::features;
use super::super::raw;
use super::acme;
use super::client_auth::{self, ClientListeners};
use super::context::CheckContext;
use super::defences;
use super::files::Files;
use crate::net::listener::ListenAddress;
use crate::net::tls::{Certificate, TlsSettings, Trust, trust};
use crate::policy::Policy;
use crate::proxy::request::redirect::Redirect;
use crate::proxy::settings::ProxySettings;
use crate::proxy::upstream::{UpstreamAddress, UpstreamTarget};
use crate::time::{Clock, Time};

/// Certificates for clients and operators, and the oldest version of TLS.
pub(super) fn check(cx: &mut CheckContext<'_>, f: &mut Findings) -> TlsSettings {
    let raw = cx.raw;
    if !has_features(raw, f) {
        return TlsSettings::default();
    }
    let now = Clock::system().now();
    let pairs = raw.tls.certificates.value.iter().flatten();
    let mut certificates: Vec<Certificate> =
        pairs.filter_map(|pair| certificate(pair, now, &mut cx.files, f)).collect();
    let has_clients = cx.listens().any(ListenAddress::is_tls);
    let is_used = has_clients || cx.admin.iter().any(ListenAddress::is_tls);
    if let Some(spot) = raw.tls.certificates.key.as_ref().filter(|_| !is_used) {
        f.warning(spot, "no listener uses these certificates", USE_THEM);
    }
    if let Some(table) = raw.tls.acme.as_ref().filter(|_| !is_used) {
        f.error(&table.name.spot, "no listener would use the certificates", USE_THEM);
    }
    // Its mistakes are reported with the time-outs.
    let header_timeout = raw.proxy.header_timeout.checked(&mut Findings::default());
    let handshake = ProxySettings::handshake_time(header_timeout);
    let acme = raw.tls.acme.as_ref();
    let acme = acme.and_then(|table| acme::check(table, &cx.listen, handshake, &mut cx.files, f));
    certificates.extend(acme.iter().flat_map(|acme| &acme.domains).filter_map(|(_, own)| own.clone()));
    if raw.tls.certificates.key.is_none() && raw.tls.acme.is_none() {
        for item in cx.listens_as_written().filter(|item| is_https(&item.value)) {
            f.error(&item.spot, format!("`{}` has no certificate", item.value), EXAMPLE);
        }
    }
    let minimum = raw.tls.minimum.checked(f).unwrap_or_default();
    let redirects = raw.tls.redirect.as_ref().is_some_and(|redirect| redirect.value);
    let listeners = ClientListeners {
        has_tls: has_clients,
        has_plain: !redirects && cx.listen.iter().any(|address| !address.is_tls()),
    };
    let client_auth = client_auth::check(cx, listeners, f);
    let reads_fingerprints = defences::fingerprints(cx, f);
    TlsSettings { certificates, acme, minimum, client_auth, reads_fingerprints }
}

/// Whether this program can do what the table asks for.
fn has_features(raw: &raw::RawFile, f: &mut Findings) -> bool {
    let in_front = raw.client.certificate.iter().filter(|word| word.value != "off").map(|word| &word.spot);
    let in_front = in_front.chain(raw.monitors.iter().map(|monitor| &monitor.name.spot));
    let raw = &raw.tls;
    let files = [&raw.upstream_ca, &raw.client_ca].into_iter().flatten().map(|text| &text.spot);
    let words =
        raw.minimum.iter().map(|word| &word.spot).chain(raw.client_auth.iter().map(|word| &word.spot));
    let tls = raw.certificates.key.iter().chain(words).chain(files).chain(in_front);
    let acme = raw.acme.iter().map(|table| &table.name.spot);
    let mut has_all = true;
    for (spots, feature) in [(tls.collect::<Vec<_>>(), features::TLS), (acme.collect(), features::ACME)] {
        if let Some(missing) = feature.missing() {
            spots.iter().for_each(|spot| f.error(spot, &*missing, features::HINT));
            has_all &= spots.is_empty();
        }
    }
    has_all
}

fn is_https(listen: &str) -> bool {
    listen.starts_with("https:") || listen.starts_with("systemd+https:")
}

/// The redirect from `http://` to `https://`, with its port; `None` if it is off.
pub(super) fn redirect(cx: &CheckContext<'_>, f: &mut Findings) -> Option<Redirect> {
    let wanted = cx.raw.tls.redirect.as_ref().filter(|redirect| redirect.value)?;
    let ports = cx.listen.iter().filter_map(|address| match address {
        ListenAddress::Tls(address) => Some(address.port()),
        // The port shows only when systemd passes the socket; 443 is the likeliest.
        ListenAddress::Systemd { tls: true, .. } => Some(443),
        ListenAddress::Tcp(_) | ListenAddress::Unix(_) | ListenAddress::Systemd { .. } => None,
    });
    let ports: Vec<u16> = ports.collect();
    let is_plain = |address: &ListenAddress| {
        matches!(address, ListenAddress::Tcp(_) | ListenAddress::Systemd { tls: false, .. })
    };
    if !cx.listen.iter().any(is_plain) {
        f.warning(&wanted.spot, "no listener speaks http://", "listen = \"http://[::]:80\" as well");
    } else if ports.is_empty() && cx.client.trust.is_empty() {
        let hint = "listen = \"https://[::]:443\", or name the proxy that speaks TLS in client.trust";
        f.warning(&wanted.spot, "clients are sent to https://, where no listener is", hint);
    }
    let port = ports.iter().find(|port| **port == 443).or(ports.first());
    Some(Redirect { port: port.copied() })
}

/// The roots that upstreams of `https://` are checked against; `None` without such upstreams.
pub(super) fn upstream_trust(cx: &mut CheckContext<'_>, policy: &Policy, f: &mut Findings) -> Option<Trust> {
    if features::TLS.missing().is_some() {
        return None;
    }
    let is_secure = |target: &UpstreamTarget| matches!(target.address, UpstreamAddress::Tls { .. });
    let mut reports = policy.alarms().filter_map(|(_, alarm)| alarm.report_to());
    let is_needed = cx.groups.targets.iter().flatten().any(is_secure)
        || reports.any(|url| url.scheme_str() == Some("https"));
    let (spot, roots) = match &cx.raw.tls.upstream_ca {
        Some(ca) => {
            if !is_needed {
                f.warning(
                    &ca.spot,
                    "no upstream speaks https://",
                    "as in upstream = \"https://app.internal\"",
                );
            }
            (&ca.spot, trust::of_pem(&cx.files.bytes(&ca.value, &ca.spot, f)?))
        }
        None if is_needed && !cx.files.is_sealed => {
            (cx.raw.upstream.as_ref().map_or(&cx.whole, |list| &list.spot), trust::system())
        }
        None => return None,
    };
    let trust = roots.map_err(|error| error.to_string());
    match trust.and_then(|roots| Trust::new(roots).map_err(|error| error.to_string())) {
        Ok(trust) => Some(trust.for_http1()).filter(|_| is_needed),
        Err(why) => {
            f.error(spot, why, "tls.upstream_ca names a file of certificates in PEM");
            None
        }
    }
}

fn certificate(
    RawItem { value: pair, spot, .. }: &RawItem<raw::RawCertificate>,
    now: Time,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> Option<Certificate> {
    for (key, path) in [("cert", &pair.cert), ("key", &pair.key)] {
        if path.key.is_none() {
            f.error(spot, format!("`{key}` is missing"), PAIR);
        }
    }
    // Without one path the other file is read all the same.
    let (cert, key) = (pair.cert.value.as_deref(), pair.key.value.as_deref());
    let [chain, private] =
        [cert, key].map(|path| path.and_then(|path| files.bytes(&path.value, &path.spot, f)));
    let (cert, key) = (cert?, key?);
    match Certificate::from_pem(&chain?, &private?, &cert.value) {
        Ok(certificate) => {
            warn_of_its_time(&certificate, cert, now, f);
            Some(certificate)
        }
        Err(why) => {
            let (wrong, other) = if why.is_about_the_key() { (key, cert) } else { (cert, key) };
            let hint = match why.is_about_the_key() {
                true => format!("the key in PEM that `{}` was made for", other.value),
                false => "the chain in PEM, the certificate of this server first".to_owned(),
            };
            f.error(&wrong.spot, format!("`{}` {why}", wrong.value), hint);
            None
        }
    }
}

fn warn_of_its_time(certificate: &Certificate, cert: &Located<String>, now: Time, f: &mut Findings) {
    let name = certificate.name();
    if certificate.expires() <= now {
        f.warning(
            &cert.spot,
            format!("the certificate of `{name}` has expired"),
            "clients will not take it: renew it",
        );
    } else if certificate.begins() > now {
        let hint = "clients will not take it yet: is the clock of this machine right?";
        f.warning(&cert.spot, format!("the certificate of `{name}` is not good yet"), hint);
    }
}

const USE_THEM: &str = "listen = \"https://[::]:443\" uses them";
const PAIR: &str = "as in { cert = \"fullchain.pem\", key = \"privkey.pem\" }";
const EXAMPLE: &str = "[tls] certificates = [{ cert = \"fullchain.pem\", key = \"privkey.pem\" }] has one";
