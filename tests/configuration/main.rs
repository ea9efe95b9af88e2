//! The configuration file: mistakes, samples, examples in documents, presets.

#![allow(clippy::unwrap_used, clippy::unreachable, reason = "these are tests")]

mod combined;
mod examples;
mod file;
mod preset_paths;
mod presets;
mod recipes;
mod schema;
