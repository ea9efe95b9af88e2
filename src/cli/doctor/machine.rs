//! What the machine gives a process: open files.

use super::Symptom;
use crate::app::descriptor_limit;
use crate::cli::service_unit::ServiceUnit;
use crate::config::Config;

/// A connection takes a descriptor, and another one to the upstream; the gate raises its soft limit by itself.
pub(super) fn descriptors(config: &Config, unit: Option<&ServiceUnit>) -> Vec<Symptom> {
    let upstreams: usize = config.upstreams.iter().map(Vec::len).sum();
    let wanted = config.proxy.connections.saturating_add(upstreams.saturating_mul(config.proxy.upstream_max));
    let wanted = u64::try_from(wanted).unwrap_or(u64::MAX).saturating_add(OWN);
    let place = "open files";
    vec![match unit.and_then(|unit| unit.open_files).or_else(descriptor_limit) {
        Some(most) if most < wanted => {
            let words =
                format!("the gate may open {most}, proxy.connections and upstream_max ask for {wanted}");
            let mend = format!("LimitNOFILE={wanted} in the unit, or smaller numbers in [proxy]");
            Symptom::doubtful(place, words, mend)
        }
        Some(most) => Symptom::good(place, format!("{most} allowed, at most {wanted} needed")),
        None => Symptom::good(place, "any number allowed"),
    }]
}

/// Logs, sockets, libraries, the store.
const OWN: u64 = 64;
