//! Rates and lengths of time as the file writes them, for those who may not know the file.
//!
//! It judges nothing itself.

use crate::bucket::Continuous;
use crate::config::values::{Duration, Mistake, Rate};
use crate::observe::admin::Grammar;

/// What operators write means what it would mean in the file.
pub(super) fn of_the_file() -> Grammar {
    Grammar {
        rate: |text| {
            let rate: Rate = text.parse().map_err(words)?;
            Continuous::new(rate.count, rate.period, rate.burst).map_err(|error| error.to_string())
        },
        span: |text| text.parse().map(|Duration(span)| span).map_err(words),
    }
}

fn words(mistake: Mistake) -> String {
    mistake.to_string()
}
