//! Tells operators, at the start and every day, of certificates that end soon or have ended.

use super::Parts;
use super::ticks::next_tick;
use crate::event::{Event, Trouble, TroubleKind};
use crate::net::tls::Certificate;
use crate::observe::timestamp::rfc3339;
use crate::time::{Span, Time};

impl Parts {
    /// Never ends.
    pub(super) async fn watch_expiry(&self) {
        loop {
            let (settings, now) = (self.serving.tls.settings.load_full(), self.engine.clock().now());
            for certificate in settings.certificates.iter().filter(|certificate| certificate.ends_soon(now)) {
                let (name, why) = (certificate.name(), words(certificate, now));
                tracing::warn!("the certificate {name} {why}");
                let trouble =
                    Trouble { kind: TroubleKind::CertificateExpires, subject: name, why: &why, at: now };
                self.observers.events.emit(&Event::Trouble(trouble));
            }
            next_tick(PERIOD.to_std()).await;
        }
    }
}

fn words(certificate: &Certificate, now: Time) -> String {
    let verb = if certificate.expires() <= now { "ended" } else { "ends" };
    format!("{verb} {}", rfc3339(certificate.expires()))
}

const PERIOD: Span = Span::from_secs(86_400);
