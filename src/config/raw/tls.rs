//! `[tls]` as it was written.

use super::super::diagnostic::{Findings, Spot};
use super::super::section::{Keys, Section};
use super::{Text, Truth};

#[derive(Debug)]
pub(in super::super) struct Tls {
    pub(in super::super) certificates: Vec<Pair>,
    /// Where `certificates` stands, if it does.
    pub(in super::super) spot: Option<Spot>,
    pub(in super::super) minimum: Text,
    pub(in super::super) redirect: Truth,
    pub(in super::super) upstream_ca: Text,
}

/// A certificate and its key, by the paths of their files.
#[derive(Debug)]
pub(in super::super) struct Pair {
    pub(in super::super) cert: Text,
    pub(in super::super) key: Text,
}

impl Tls {
    pub(super) fn read(top: &Section<'_>, f: &mut Findings) -> Self {
        let section = top.table("tls", TLS, f);
        let pairs = section.tables("certificates", PAIR, f).into_iter();
        Self {
            certificates: pairs.map(|(pair, spot)| Pair::read(&pair, &spot, f)).collect(),
            spot: section.entry("certificates").map(|entry| entry.key.spot.clone()),
            minimum: section.string("minimum", f),
            redirect: section.truth("redirect", f),
            upstream_ca: section.string("upstream_ca", f),
        }
    }
}

impl Pair {
    /// A key that is missing is said here: without it there is no pair.
    fn read(section: &Section<'_>, spot: &Spot, f: &mut Findings) -> Self {
        for key in ["cert", "key"] {
            if section.entry(key).is_none() {
                f.error(spot, format!("`{key}` is missing"), EXAMPLE);
            }
        }
        Self { cert: section.string("cert", f), key: section.string("key", f) }
    }
}

pub(super) const TLS: Keys =
    Keys { known: &["certificates", "minimum", "redirect", "upstream_ca"], not_built: &[] };
const PAIR: Keys = Keys { known: &["cert", "key"], not_built: &[] };
const EXAMPLE: &str = "as in { cert = \"fullchain.pem\", key = \"privkey.pem\" }";
