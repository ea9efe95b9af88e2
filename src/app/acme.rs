//! Orders and renews the certificates of `tls.acme`, in the background.
//!
//! A certificate is ordered when its file holds none, and renewed by a part of its lifetime before it ends or when the
//! authority suggests (RFC 9773). It is written to its file; the reload takes it over like any other changed file. A
//! failure never touches the certificate that is in use.

mod authority;
mod dns_hook;
mod foreign_text;
mod https;
mod on_demand;
mod schedule;
mod state;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use self::authority::{AcmeError, Authority, Proofs};
use self::on_demand::Demanded;
use self::schedule::{Schedule, Validity};
use super::Parts;
use super::ticks::next_tick;
use crate::event::{Event, Trouble, TroubleKind};
use crate::net::tls::{AcmeSettings, Certificate, TlsSettings};
use crate::observe::timestamp::rfc3339;

/// What is known of each name, apart from what its file holds.
type Schedules = HashMap<String, Schedule>;

impl Parts {
    /// Never ends.
    pub(super) async fn keep_certificates(&self) {
        let (mut schedules, mut demanded) = (Schedules::new(), Demanded::default());
        let mut running: Option<Arc<TlsSettings>> = None;
        loop {
            let settings = self.serving.tls.settings.load_full();
            if let Some(acme) = &settings.acme {
                let before = running.as_ref().and_then(|running| running.acme.as_ref());
                if before.is_none_or(|before| is_other_authority(before, acme)) {
                    // Waits and suggestions are those of one authority.
                    (schedules, demanded) = (Schedules::new(), Demanded::default());
                }
                self.renew_due(acme, &mut schedules).await;
                self.order_demanded(acme, &mut demanded).await;
                running = Some(Arc::clone(&settings));
            }
            tokio::select! {
                () = next_tick(PERIOD) => {}
                () = self.serving.tls.on_demand.until_asked() => {}
            }
        }
    }

    async fn renew_due(&self, acme: &AcmeSettings, schedules: &mut Schedules) {
        schedules.retain(|name, _| acme.domains.iter().any(|(known, _)| known == name));
        for (name, certificate) in &acme.domains {
            let schedule = schedules.entry(name.clone()).or_default();
            schedule.knows(certificate.as_ref().map(validity));
            self.renew(acme, name, certificate.as_ref(), schedule).await;
        }
    }

    /// Asks for advice if it is time to, and orders a certificate if one is due.
    async fn renew(
        &self,
        acme: &AcmeSettings,
        name: &str,
        former: Option<&Certificate>,
        schedule: &mut Schedule,
    ) -> Option<Certificate> {
        let authority = Authority::new(acme, self.sandbox.broker());
        let now = self.engine.clock().now();
        let newest = former.filter(|certificate| schedule.is_about(validity(certificate)));
        if let Some(certificate) = newest.filter(|_| schedule.wants_advice(now)) {
            let suggestion = authority.suggestion(certificate).await;
            schedule.advised(suggestion, self.engine.clock().now());
        }
        match schedule.next_try() <= now {
            true => self.order(&authority, name, former, schedule).await,
            false => None,
        }
    }

    async fn order(
        &self,
        authority: &Authority<'_>,
        name: &str,
        former: Option<&Certificate>,
        schedule: &mut Schedule,
    ) -> Option<Certificate> {
        // An order after a failure names no predecessor: it may be what the authority does not like.
        let replaced = former.filter(|_| schedule.failures() == 0 && schedule.is_advised());
        let mut proofs = Proofs::default();
        let ordered = authority.order(name, replaced, &self.serving.tls.validations, &mut proofs);
        let ordered = tokio::time::timeout(MAX_ORDER, ordered).await;
        proofs.close().await;
        let now = self.engine.clock().now();
        match ordered.unwrap_or(Err(AcmeError::Timeout)) {
            Ok(certificate) => {
                schedule.issued(validity(&certificate), now);
                let (until, next) = (rfc3339(certificate.expires()), rfc3339(schedule.next_try()));
                tracing::info!(
                    "the certificate of {name} was issued until {until}, and is renewed from {next}"
                );
                Some(certificate)
            }
            Err(error) => {
                schedule.failed(now, authority.retry_after());
                let next = rfc3339(schedule.next_try());
                let present = former.map_or_else(
                    || "there is none yet".to_owned(),
                    |former| format!("the present one ends {}", rfc3339(former.expires())),
                );
                tracing::error!(
                    "no new certificate for {name}: {error}; {present}, and the next try is {next}"
                );
                let why = format!("{error}; {present}, and the next try is {next}");
                let kind = TroubleKind::CertificateNotIssued;
                let trouble = Trouble { kind, subject: name, why: &why, at: now };
                self.observers.events.emit(&Event::Trouble(trouble));
                None
            }
        }
    }
}

fn validity(certificate: &Certificate) -> Validity {
    Validity { begins: certificate.begins(), expires: certificate.expires() }
}

fn is_other_authority(one: &AcmeSettings, other: &AcmeSettings) -> bool {
    one.state != other.state
        || one.external_account != other.external_account
        || one.profile != other.profile
        || (one.validation, &one.dns_hook) != (other.validation, &other.dns_hook)
        || one.trust != other.trust
}

/// How often due certificates are looked for: with the looks at files, so that an idle gate wakes up no more often.
const PERIOD: Duration = Duration::from_secs(2);
/// An order that takes longer has failed.
const MAX_ORDER: Duration = Duration::from_secs(300);
