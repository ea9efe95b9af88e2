//! Answers `/api/v1/check` and `/api/v1/explain`: what a file would mean, and what a request would meet. Changes nothing.

use std::sync::Arc;

use serde_json::Value;

use super::Parts;
use super::explain::Explanation;
use crate::config::{Sources, load};
use crate::observe::admin::DryRunApi;

impl Parts {
    /// Checks texts and explains requests.
    pub(super) fn dry_run(&self) -> DryRunApi {
        let (engine, config) = (Arc::clone(&self.engine), Arc::clone(&self.config));
        DryRunApi::new(
            |text| {
                // Off the background's thread, because a long text takes a while; not on the broker's, which has rights
                // that a parser of foreign texts must not have.
                let checked = tokio::task::spawn_blocking(move || check(&text));
                Box::pin(async { checked.await.map_err(|error| error.to_string()) })
            },
            move |request| {
                let (engine, config) = (Arc::clone(&engine), config.load_full());
                Box::pin(async move {
                    Explanation::of_gate(&engine, &config, &request).await.map(|steps| steps.to_json())
                })
            },
        )
    }
}

/// Checks a text alone. Each diagnostic also has its `text` for people.
fn check(text: &str) -> Value {
    let loaded = load(&Sources::from_text("config.toml", text).sealed());
    let mut value = loaded.to_json();
    let texts = loaded.diagnostics.iter().take(MAX_DIAGNOSTICS).map(|diagnostic| {
        let mut value = diagnostic.to_json();
        value["text"] = diagnostic.render(false).trim_end().into();
        value
    });
    value["diagnostics"] = texts.collect();
    value["left_out"] = loaded.diagnostics.len().saturating_sub(MAX_DIAGNOSTICS).into();
    value
}

/// Diagnostics in the answer to a check; more are counted.
const MAX_DIAGNOSTICS: usize = 200;
