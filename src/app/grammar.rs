//! Parses values for the admin API as the file does.
//!
//! The file's own parsers decide.

use crate::bucket::Continuous;
use crate::config::values::{Duration, Mistake, Prefix, RateValue};
use crate::observe::admin::Grammar;

/// A value of an operator means what it means in the file.
pub(super) fn of_config() -> Grammar {
    Grammar {
        rate: |text| {
            let rate: RateValue = text.parse()?;
            Continuous::new(rate.count, rate.period, rate.burst)
                .map_err(|error| Mistake::new(error.to_string(), ""))
        },
        span: |text| text.parse().map(|Duration(span)| span),
        prefix: |text| text.parse().map(|prefix: Prefix| prefix.net.trunc()),
    }
}
