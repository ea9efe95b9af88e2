//! Answers `/api/v1/check` and `/api/v1/explain`: what a file would mean, and what a request would meet. Changes nothing.

use std::sync::Arc;

use tollgate_grammar::record::Optional;

use super::Parts;
use super::explain::Explanation;
use crate::config::{Diagnostic, Sources, load};
use crate::observe::admin::DryRunApi;
use crate::observe::admin::pages::CheckPage;

impl Parts {
    /// Checks texts and explains requests.
    pub(super) fn dry_run(&self) -> DryRunApi {
        let (engine, config) = (Arc::clone(&self.engine), Arc::clone(&self.config));
        DryRunApi::new(
            |text| {
                // Off the background's thread, because a long text takes a while; not on the broker's, which has rights
                // that a parser of foreign texts must not have.
                let checked = tokio::task::spawn_blocking(move || check(&text));
                Box::pin(async { Ok(checked.await?) })
            },
            move |request| {
                let (engine, config) = (Arc::clone(&engine), config.load_full());
                Box::pin(async move { Ok(Explanation::of_gate(&engine, &config, &request).await?.page()) })
            },
        )
    }
}

/// Checks a text alone. Each diagnostic also has its `text` for people.
fn check(text: &str) -> CheckPage {
    let loaded = load(&Sources::from_text("config.toml", text).sealed());
    let texts = loaded.diagnostics.iter().take(MAX_DIAGNOSTICS).map(Diagnostic::record_with_text);
    let left_out = loaded.diagnostics.len().saturating_sub(MAX_DIAGNOSTICS);
    CheckPage { diagnostics: texts.collect(), left_out: Optional(Some(left_out as u64)), ..loaded.page() }
}

/// Diagnostics in the answer to a check; more are counted.
const MAX_DIAGNOSTICS: usize = 200;
