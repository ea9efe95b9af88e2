//! Orders and renews the certificates of `tls.acme`, in the background.
//!
//! A certificate is ordered when its file holds none, and renewed a third of its time before it ends or when the
//! authority suggests (RFC 9773). It is written to its file; the reload takes it over like any other changed file. A
//! failure never touches the certificate that is in use.

mod authority;
mod https;
mod schedule;
mod state;

use std::collections::HashMap;
use std::time::Duration;

use self::authority::{AcmeError, Authority};
use self::schedule::{Schedule, Validity};
use super::Parts;
use super::ticks::next_tick;
use crate::event::{Event, Trouble, TroubleKind};
use crate::net::tls::{AcmeSettings, Certificate};
use crate::observe::timestamp::rfc3339;

/// What is known of each name, apart from what its file holds.
type Schedules = HashMap<String, Schedule>;

impl Parts {
    /// Never ends.
    pub(super) async fn keep_certificates(&self) {
        let mut schedules = Schedules::new();
        let mut running = None;
        loop {
            let settings = self.serving.tls.settings.load_full();
            if let Some(acme) = &settings.acme {
                if running.as_ref().is_none_or(|running| is_other_authority(running, acme)) {
                    // Waits and suggestions are those of one authority.
                    schedules.clear();
                }
                self.renew_due(acme, &mut schedules).await;
                running = Some(acme.clone());
            }
            next_tick(PERIOD).await;
        }
    }

    async fn renew_due(&self, acme: &AcmeSettings, schedules: &mut Schedules) {
        schedules.retain(|name, _| acme.domains.iter().any(|(known, _)| known == name));
        for (name, certificate) in &acme.domains {
            let schedule = schedules.entry(name.clone()).or_default();
            schedule.knows(certificate.as_ref().map(validity));
            let authority = Authority::new(acme, self.sandbox.broker());
            let now = self.engine.clock().now();
            if let Some(certificate) = certificate.as_ref().filter(|_| schedule.wants_advice(now)) {
                let suggestion = authority.suggestion(certificate).await;
                schedule.advised(suggestion, self.engine.clock().now());
            }
            if schedule.next_try() <= now {
                self.order(&authority, name, certificate.as_ref(), schedule).await;
            }
        }
    }

    async fn order(
        &self,
        authority: &Authority<'_>,
        name: &str,
        former: Option<&Certificate>,
        schedule: &mut Schedule,
    ) {
        // An order after a failure names no predecessor: it may be what the authority does not like.
        let replaced = former.filter(|_| schedule.failures() == 0 && schedule.is_advised());
        let ordered = authority.order(name, replaced, &self.serving.tls.validations);
        let ordered = tokio::time::timeout(MAX_ORDER, ordered).await;
        let now = self.engine.clock().now();
        match ordered.unwrap_or(Err(AcmeError::Timeout)) {
            Ok(certificate) => {
                schedule.issued(validity(&certificate));
                let (until, next) = (rfc3339(certificate.expires()), rfc3339(schedule.next_try()));
                tracing::info!(
                    "the certificate of {name} was issued until {until}, and is renewed from {next}"
                );
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
            }
        }
    }
}

fn validity(certificate: &Certificate) -> Validity {
    Validity { begins: certificate.begins(), expires: certificate.expires() }
}

fn is_other_authority(one: &AcmeSettings, other: &AcmeSettings) -> bool {
    one.state != other.state || one.validation != other.validation || one.trust != other.trust
}

/// How often due certificates are looked for: with the looks at files, so that an idle gate wakes up no more often.
const PERIOD: Duration = Duration::from_secs(2);
/// An order that takes longer has failed.
const MAX_ORDER: Duration = Duration::from_secs(300);
