//! Certificates: how long they are good, and whether the authority of `tls.acme` can be reached.

use http::Uri;

use super::Symptom;
use super::upstreams::connect;
use crate::config::Config;
use crate::net::tls::{AcmeSettings, Certificate};
use crate::observe::timestamp::rfc3339;
use crate::time::Clock;

pub(super) fn look(config: &Config) -> Vec<Symptom> {
    let certificates = config.front.tls.certificates.iter().map(certificate);
    let of_authority = config.front.tls.acme.iter().flat_map(|acme| {
        let missing = acme.domains.iter().filter(|(_, known)| known.is_none());
        missing.map(|(name, _)| missing_one(name)).chain([authority(&acme.directory), state(acme)])
    });
    certificates.chain(of_authority).collect()
}

fn certificate(certificate: &Certificate) -> Symptom {
    let place = format!("certificate {}", certificate.name());
    let words = format!("good until {}", rfc3339(certificate.expires()));
    match certificate.ends_soon(Clock::system().now()) {
        true => Symptom::doubtful(place, words, "renew it: the log says why the gate or its renewal did not"),
        false => Symptom::good(place, words),
    }
}

fn missing_one(name: &str) -> Symptom {
    let mend = "start the gate, which orders it; the log says what the authority answers";
    Symptom::doubtful(format!("certificate {name}"), "there is none yet", mend)
}

fn authority(directory: &Uri) -> Symptom {
    let (host, port) = (directory.host().unwrap_or_default(), directory.port_u16().unwrap_or(443));
    let place = format!("authority {host}");
    match connect(host.trim_matches(['[', ']']), port) {
        Ok(_) => Symptom::good(place, "accepts connections"),
        Err(error) => {
            let mend = format!("let the gate connect to port {port} there, or correct tls.acme.directory");
            Symptom::bad(place, format!("cannot be reached: {error}"), mend)
        }
    }
}

/// The gate makes it when it orders, so it need not be there.
fn state(acme: &AcmeSettings) -> Symptom {
    let place = format!("tls.acme.state {}", acme.state.display());
    let there = acme.state.ancestors().find_map(|directory| directory.metadata().ok());
    match there {
        Some(about) if !about.is_dir() => Symptom::bad(place, "is not a directory", "name another one"),
        Some(about) if about.permissions().readonly() => {
            Symptom::bad(place, "cannot be written to", "let the gate's user write there")
        }
        _ => Symptom::good(place, "keys and certificates are kept there"),
    }
}
