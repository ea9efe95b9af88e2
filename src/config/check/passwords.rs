//! `key = "password"`: what such a limit needs, and what it cannot have.

use tollgate_grammar::{Findings, RawNamed};

use super::super::raw;
use crate::defences;
use crate::policy::Limit;
use crate::time::Span;

/// Checks the limits that have a bucket for each password.
pub(super) fn check(raw: &[RawNamed<raw::RawLimit>], limits: &[Option<Limit>], f: &mut Findings) {
    for (RawNamed { name, value: raw }, limit) in raw.iter().zip(limits) {
        let Some(limit) = limit.as_ref().filter(|limit| limit.is_of_passwords()) else { continue };
        let key = raw.key.as_ref().map_or(&name.spot, |key| &key.spot);
        if limit.key.len() > 1 {
            f.error(key, "`password` must be alone in a key", "key = \"password\"");
        }
        if raw.unit.as_ref().is_none_or(|unit| unit.value != "users") {
            let hint = "unit = \"users\": each attempt of a person would count otherwise";
            f.error(key, "a limit by password counts the accounts that it is tried at", hint);
        }
        defences::check_sub_limits(&raw.sub_limits, limit, f);
        if let Some(rate) = raw.rate.key.as_ref().filter(|_| limit.spec.window() > DAY) {
            let message =
                "this bucket takes longer than a day to fill, and passwords are forgotten after one";
            f.warning(rate, message, "as in rate = \"9 per 1d\"");
        }
    }
}

/// For as long as passwords have the same hashes. Rounding of the time for a token may make a bucket a little slower.
const DAY: Span = Span::from_secs(86_400 + 1);
