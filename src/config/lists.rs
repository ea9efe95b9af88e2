//! `[lists.NAME]`: networks that others publish as dangerous, and what attempts from them pay.
//!
//! A list by `https://` is a file of the state directory, which `app/list_fetches.rs` writes again and again. The check of
//! the keys is left to `check/lists.rs`, and what an attempt pays to `defences/lists.rs` and the limits.

pub mod formats;

use std::path::PathBuf;

use http::{HeaderValue, Uri};
use tollgate_grammar::duration::{DAY, SECOND};
use tollgate_grammar::kind::{Free, Key, Lasting, Secret, Switch, Text, Whole, Word};
use tollgate_grammar::{name, tables};

use self::formats::{ListFormat, ListFormats};
use super::values::RateValue;
use crate::time::Span;

tables! {
    /// Networks that others publish as dangerous, and what attempts from them pay.
    pub(in crate::config) RawNetworkList (named name::PATTERN) {
        url: Key<Free> = Example,
        format: Key<Word<ListFormats>> = Example,
        every: Key<Lasting<{ 60 * SECOND }, { 30 * DAY }>> = Example,
        key: Key<Secret> = Example,
        cost: Key<Whole<u32, 2, 1000>> = Example,
        rate: Key<Text<RateValue>> = Example,
        deny: Key<Switch> = Example,
    }
}

/// A list that the gate fetches.
#[derive(Clone, PartialEq, Eq)]
pub struct FetchedList {
    /// Its name.
    pub name: String,
    /// Where it is published.
    pub url: Uri,
    /// How it is written there.
    pub format: ListFormat,
    /// Between two fetches.
    pub every: Span,
    /// The key of CrowdSec's local API.
    pub key: Option<HeaderValue>,
    /// Where its networks are kept, one a line.
    pub path: PathBuf,
}

impl std::fmt::Debug for FetchedList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FetchedList({}, address and key hidden)", self.name)
    }
}
