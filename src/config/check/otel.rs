//! `[otel]`: where spans and metrics are exported to.

use tollgate_grammar::Findings;
use tollgate_grammar::kind::Checked as _;

use super::super::values::CollectorUrl;
use super::super::{features, raw};
use crate::observe::settings::OtelSettings;

/// `None` exports nothing; an empty endpoint means the same.
pub(super) fn check(raw: &raw::RawOtel, f: &mut Findings) -> Option<OtelSettings> {
    let sample_ppm = raw.sample.checked(f).unwrap_or(DEFAULT_SAMPLE_PPM);
    let Some(endpoint) = raw.endpoint.as_ref().filter(|endpoint| !endpoint.value.is_empty()) else {
        if let Some(sample) = &raw.sample {
            f.error(&sample.spot, "`otel.endpoint` is missing", "endpoint = \"http://127.0.0.1:4318\"");
        }
        return None;
    };
    if let Some(missing) = features::OTEL.missing() {
        f.error(&endpoint.spot, missing, features::HINT);
    }
    let CollectorUrl { host, port } = endpoint.checked(f)?;
    Some(OtelSettings { host, port, sample_ppm })
}

/// One request of a hundred.
const DEFAULT_SAMPLE_PPM: u32 = 10_000;
