//! What every shape of bucket promises, over random specs, random times and random costs, beside slow models that
//! keep a list of what was taken and decide by counting it.
//!
//! Each property runs 2,500 cases, or as many as `PROPTEST_CASES` says (`scripts/soak`).

#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers drawn small enough")]

mod samples;

mod model;
mod promise;

mod agreement;
mod bytes;
mod clocks;
mod conversion;
mod distinct;
mod escalation;
mod governor;
mod joining;
mod refunds;
mod traces;
