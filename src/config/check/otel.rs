//! `[otel]`: where spans and metrics are exported to.

use super::super::diagnostic::Findings;
use super::super::values::CollectorUrl;
use super::super::{features, raw};
use super::fields::{parsed, share_of};
use crate::observe::settings::OtelSettings;

/// `None` exports nothing; an empty endpoint means the same.
pub(super) fn check(raw: &raw::RawOtel, f: &mut Findings) -> Option<OtelSettings> {
    let sample_ppm = share_of(MILLION, raw.sample.as_ref(), f).unwrap_or(DEFAULT_SAMPLE_PPM);
    let Some(endpoint) = raw.endpoint.as_ref().filter(|endpoint| !endpoint.value.is_empty()) else {
        if let Some(sample) = &raw.sample {
            f.error(&sample.spot, "`otel.endpoint` is missing", "endpoint = \"http://127.0.0.1:4318\"");
        }
        return None;
    };
    if let Some(missing) = features::OTEL.missing() {
        f.error(&endpoint.spot, missing, features::HINT);
    }
    let CollectorUrl { host, port } = parsed(endpoint, f)?;
    Some(OtelSettings { host, port, sample_ppm })
}

const MILLION: u32 = 1_000_000;
/// One request of a hundred.
const DEFAULT_SAMPLE_PPM: u32 = 10_000;
