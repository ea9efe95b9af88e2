//! The configuration file: mistakes, samples, included files, examples in documents, presets.

#![allow(clippy::unwrap_used, clippy::unreachable, reason = "these are tests")]

mod combined;
mod example_programs;
mod examples;
mod file;
mod included;
mod preset_paths;
mod presets;
mod recipes;
mod schema;
mod sites;
