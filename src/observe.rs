//! Listeners to events: metrics, logs and the pages that show them.

pub mod settings;
