//! Orders the certificates that clients asked for by a handshake (`tls.acme.on_demand`), at the rate of the file.
//!
//! Which names those are, and how long a handshake waits, is left to `net/tls/on_demand.rs`.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use super::authority::Authority;
use super::{Schedules, validity};
use crate::app::Parts;
use crate::bucket::{Admission, Continuous, Op, Spec, step};
use crate::net::tls::{AcmeSettings, Certificate, OnDemandSettings};
use crate::time::Time;

/// What is known of names that were asked for, and the bucket of new ones.
#[derive(Default)]
pub(super) struct Demanded {
    schedules: Schedules,
    bucket: [u64; 1],
    is_refusing: bool,
}

impl Demanded {
    /// Whether another name may be ordered now.
    fn takes(&mut self, settings: &OnDemandSettings, name: &str, now: Time) -> bool {
        let (count, period, burst) = settings.rate;
        let Ok(bucket) = Continuous::new(count, period, burst) else { return false };
        let verdict = step(&Spec::Continuous(bucket), &mut self.bucket, now, Op::Take(1)).verdict;
        let is_refused = matches!(verdict.admission, Admission::Refused { .. });
        if is_refused && !self.is_refusing {
            tracing::warn!(
                "tls.acme.on_demand: no certificate is ordered for {name}, because its rate is used up"
            );
        }
        self.is_refusing = is_refused;
        !is_refused
    }
}

impl Parts {
    pub(super) async fn order_demanded(&self, acme: &AcmeSettings, demanded: &mut Demanded) {
        let (demand, clock) = (&self.serving.tls.on_demand, self.engine.clock());
        let Some(settings) = &acme.on_demand else { return };
        // Those in `domains` are kept by the file.
        let is_listed = |name: &str| acme.domains.iter().any(|(listed, _)| listed == name);
        for name in demand.expire(clock.now()).into_iter().filter(|name| !is_listed(name)) {
            let (path, now) = (acme.file(&name), clock.now());
            // The next order replaces one that stays.
            let _ = self.sandbox.broker().run(move || remove_ended(&path, now)).await;
        }
        let wanted = demand.wanted();
        let used: Vec<_> = demand.used().into_iter().filter(|(name, _)| !is_listed(name)).collect();
        let known: HashSet<&str> = used.iter().map(|(name, _)| name.as_str()).collect();
        // Pauses are remembered, so that those after failures grow, but not for ever.
        demanded
            .schedules
            .retain(|name, schedule| known.contains(name.as_str()) || schedule.is_remembered(clock.now()));
        for name in wanted {
            if is_listed(&name) || !demanded.takes(settings, &name, clock.now()) {
                demand.declined(&name);
                continue;
            }
            let schedule = demanded.schedules.entry(name.clone()).or_default();
            let authority = Authority::new(acme, self.sandbox.broker());
            match self.order(&authority, &name, None, schedule).await {
                Some(certificate) => demand.issued(&name, certificate),
                None => demand.failed(&name, schedule.next_try()),
            }
        }
        let begin = Instant::now();
        for (name, certificate) in used {
            // An authority that does not answer must not hold up new names; the next round begins with the others.
            if begin.elapsed() > MAX_ROUND {
                break;
            }
            let schedule = demanded.schedules.entry(name.clone()).or_default();
            schedule.knows(Some(validity(&certificate)));
            if let Some(renewed) = self.renew(acme, &name, Some(&certificate), schedule).await {
                demand.issued(&name, renewed);
            }
        }
    }
}

/// Removes the file of a certificate that has ended, unless the operator has put a newer one there.
fn remove_ended(path: &Path, now: Time) {
    let read = std::fs::read(path).ok().and_then(|pem| Certificate::from_pem(&pem, &pem, "").ok());
    if read.is_none_or(|certificate| certificate.expires() <= now) {
        let _ = std::fs::remove_file(path);
    }
}

/// How long renewals may take before new names are looked at again.
const MAX_ROUND: Duration = Duration::from_secs(30);
