//! `[geo]`: the files that say where addresses come from.

use std::sync::Arc;

use tollgate_grammar::{Findings, Located, RawNamed};

use super::super::raw;
use super::context::CheckContext;
use super::files::Files;
use crate::policy::geo::{Database, DatabaseKind, Geo};
use crate::policy::key::KeyPart;

/// The files; `None` without any.
pub(super) fn check(cx: &mut CheckContext<'_>, f: &mut Findings) -> Option<Arc<Geo>> {
    let raw::RawGeo { asn, country } = &cx.raw.geo;
    let [asn, country] = [(asn, DatabaseKind::Asn), (country, DatabaseKind::Country)]
        .map(|(path, kind)| path.as_ref().and_then(|path| database(path, kind, &mut cx.files, f)));
    check_keys(cx, f);
    warn(cx, f);
    (asn.is_some() || country.is_some()).then(|| Arc::new(Geo { asn, country }))
}

fn database(
    path: &Located<String>,
    kind: DatabaseKind,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> Option<Database> {
    let bytes = files.bytes(&path.value, &path.spot, f)?;
    match Database::new(bytes, kind) {
        Ok(database) => Some(database),
        Err(error) => {
            let message = format!("cannot read `{}`", files.resolve(&path.value).display());
            f.error(&path.spot, message, error.to_string());
            None
        }
    }
}

/// Warns of a file that no limit needs: each attempt would look its client up for nothing.
fn warn(cx: &CheckContext<'_>, f: &mut Findings) {
    let (raw, limits) = (&cx.raw.geo, || cx.limits.iter().flatten());
    let needs_asn = limits().any(|limit| limit.key.contains(&KeyPart::Asn) || limit.rates.lists_asns());
    let needs_country = limits().any(|limit| limit.rates.lists_countries());
    for (path, is_needed, hint) in [
        (&raw.asn, needs_asn, "as in key = \"asn\", or \"asn:64500\" in the rates of a limit"),
        (&raw.country, needs_country, "as in \"country:XX\" in the rates of a limit"),
    ] {
        if let Some(path) = path.as_ref().filter(|_| !is_needed) {
            f.warning(&path.spot, "no limit asks where a client comes from", hint);
        }
    }
}

/// Reports keys that need a file which is not named.
fn check_keys(cx: &CheckContext<'_>, f: &mut Findings) {
    for (RawNamed { name, value }, limit) in cx.raw.limits.iter().zip(&cx.limits) {
        let needs = limit.as_ref().is_some_and(|limit| limit.key.contains(&KeyPart::Asn));
        if needs && cx.raw.geo.asn.is_none() {
            let spot = value.key.as_ref().map_or(&name.spot, |key| &key.spot);
            f.error(spot, "no file tells which autonomous system an address is in", ASN_FILE);
        }
    }
}

/// What is missing where an autonomous system is named.
pub(super) const ASN_FILE: &str = "add [geo] with asn = \"GeoLite2-ASN.mmdb\"";
/// What is missing where a country is named.
pub(super) const COUNTRY_FILE: &str = "add [geo] with country = \"GeoLite2-Country.mmdb\"";
