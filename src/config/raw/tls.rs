//! `[tls]` as written.

use super::super::diagnostic::{Findings, Spot};
use super::super::section::{KnownKeys, Section};
use super::{OptBool, OptString};

#[derive(Debug)]
pub(in super::super) struct RawTls {
    pub(in super::super) certificates: Vec<RawCertificate>,
    /// The spot of `certificates`, if present.
    pub(in super::super) spot: Option<Spot>,
    pub(in super::super) minimum: OptString,
    pub(in super::super) redirect: OptBool,
    pub(in super::super) upstream_ca: OptString,
}

/// A certificate and its key, by the paths of their files.
#[derive(Debug)]
pub(in super::super) struct RawCertificate {
    pub(in super::super) cert: OptString,
    pub(in super::super) key: OptString,
}

impl RawTls {
    pub(super) fn read(top: &Section<'_>, f: &mut Findings) -> Self {
        let section = top.table("tls", TLS, f);
        let pairs = section.tables("certificates", PAIR, f).into_iter();
        Self {
            certificates: pairs.map(|(pair, spot)| RawCertificate::read(&pair, &spot, f)).collect(),
            spot: section.entry("certificates").map(|entry| entry.key.spot.clone()),
            minimum: section.string("minimum", f),
            redirect: section.boolean("redirect", f),
            upstream_ca: section.string("upstream_ca", f),
        }
    }
}

impl RawCertificate {
    /// Reports a missing path: without it there is no pair.
    fn read(section: &Section<'_>, spot: &Spot, f: &mut Findings) -> Self {
        for key in ["cert", "key"] {
            if section.entry(key).is_none() {
                f.error(spot, format!("`{key}` is missing"), EXAMPLE);
            }
        }
        Self { cert: section.string("cert", f), key: section.string("key", f) }
    }
}

pub(super) const TLS: KnownKeys =
    KnownKeys { known: &["certificates", "minimum", "redirect", "upstream_ca"], not_built: &[] };
const PAIR: KnownKeys = KnownKeys { known: &["cert", "key"], not_built: &[] };
const EXAMPLE: &str = "as in { cert = \"fullchain.pem\", key = \"privkey.pem\" }";
