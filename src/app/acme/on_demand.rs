//! Orders the certificates that clients asked for by a handshake (`tls.acme.on_demand`), at the rate of the file.
//!
//! Which names those are, and how long a handshake waits, is left to `net/tls/on_demand.rs`.

use super::authority::Authority;
use super::{Schedules, validity};
use crate::app::Parts;
use crate::bucket::{Admission, Continuous, Op, Spec, step};
use crate::net::tls::{AcmeSettings, OnDemandSettings};
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
        for name in demand.expire(clock.now()) {
            let path = acme.file(&name);
            // The next order replaces one that stays.
            let _ = self.sandbox.broker().run(move || std::fs::remove_file(path)).await;
        }
        let (wanted, used) = (demand.wanted(), demand.used());
        // Failures are remembered, so that the pauses of a name grow, but not for ever.
        demanded.schedules.retain(|name, schedule| {
            used.iter().any(|(known, _)| known == name) || schedule.has_just_failed(clock.now())
        });
        for name in wanted {
            if !demanded.takes(settings, &name, clock.now()) {
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
        for (name, certificate) in used {
            let schedule = demanded.schedules.entry(name.clone()).or_default();
            schedule.knows(Some(validity(&certificate)));
            if let Some(renewed) = self.renew(acme, &name, Some(&certificate), schedule).await {
                demand.issued(&name, renewed);
            }
        }
    }
}
