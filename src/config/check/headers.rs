//! `proxy.underscores`, `strip` and `keep`: which request headers the application does not get.

use http::HeaderName;
use tollgate_grammar::diagnostic::nearest;
use tollgate_grammar::kind::Checked as _;
use tollgate_grammar::list::distinct;
use tollgate_grammar::{Findings, Located};

use super::super::raw;
use crate::proxy::headers::filter::{HeaderFilter, NamePattern, SenderRule, lists};
use crate::proxy::request::client_cert::CertificateHeader;

/// The built-in lists, with the changes of the file.
pub(super) fn check(raw: &raw::RawProxy, certificate: CertificateHeader, f: &mut Findings) -> HeaderFilter {
    let built_in = HeaderFilter::default();
    let strip = patterns(distinct(raw.strip.as_deref(), f), f);
    let keep = patterns(distinct(raw.keep.as_deref(), f), f);
    for (given, pattern) in &keep {
        if strip.iter().any(|(_, stripped)| stripped == pattern) {
            f.error(&given.spot, format!("`{}` is in `strip` as well", given.value), "one or the other");
        } else {
            warn_of_kept(given, built_in.kind_of(pattern), f);
        }
    }
    let pass = raw.underscores.checked(f);
    let filter = if pass == Some(true) { built_in.passing_odd_names() } else { built_in };
    let unread = certificate.unread_names().iter().filter_map(|name| NamePattern::parse(name));
    let filter = unread.fold(filter, |filter, pattern| filter.with_never(&pattern));
    let filter = keep.iter().fold(filter, |filter, (_, pattern)| filter.without(pattern));
    // Whatever `keep` says: what is read as a certificate comes from a trusted proxy.
    let of_certificates = certificate.names().iter().filter_map(|name| NamePattern::parse(name));
    let filter = of_certificates.fold(filter, |filter, pattern| filter.with(&pattern));
    strip.iter().fold(filter, |filter, (_, pattern)| filter.with(pattern))
}

/// Warns of a header that the gate reads but the application never gets: it cannot decide who signs in.
pub(super) fn warn_of_dropped(raw: &raw::RawFile, f: &mut Findings) {
    if raw.proxy.underscores.as_ref().is_some_and(|word| word.value == "pass") {
        return;
    }
    let routes =
        raw.routes.iter().flat_map(|route| [&route.value.user, &route.value.password, &route.value.when]);
    let fields = routes.flatten().flat_map(|list| &list.value);
    for given in fields.chain(raw.limits.iter().filter_map(|limit| limit.value.key.as_deref())) {
        let mut start = 0;
        for part in given.value.split('+') {
            let end = start + part.len();
            if let Some(name) = part.strip_prefix("header:").filter(|name| is_odd(name)) {
                let hint = "its name has more than letters, digits and `-`: see `proxy.underscores`";
                let spot = given.spot.part(&given.value, end - name.len()..end);
                f.warning(&spot, format!("`{name}` never reaches the application"), hint);
            }
            start = end + 1;
        }
    }
}

/// Whether a valid header name is one that the gate drops.
fn is_odd(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    name.parse::<HeaderName>().is_ok() && !name.bytes().all(is_plain)
}

fn patterns<'l>(list: Vec<&'l Located<String>>, f: &mut Findings) -> Vec<(&'l Located<String>, NamePattern)> {
    let read = list.into_iter().filter_map(|given| Some((given, pattern(given, f)?)));
    read.collect()
}

fn pattern(given: &Located<String>, f: &mut Findings) -> Option<NamePattern> {
    let name = given.value.to_ascii_lowercase();
    let Some(pattern) = NamePattern::parse(&name) else {
        let hint = "as in \"X-Staff\", or \"X-Acme-*\" for all that begin with it";
        f.error(&given.spot, format!("`{}` is not a header name", given.value), hint);
        return None;
    };
    if lists::REWRITTEN.contains(&&*name) {
        let hint = "its value from strangers is always replaced; leave it out";
        f.error(&given.spot, format!("`{}` is written by the gate", given.value), hint);
        return None;
    }
    if lists::ALWAYS_PASSED.contains(&&*name) {
        f.error(&given.spot, format!("`{}` belongs to every request", given.value), "leave it out");
        return None;
    }
    Some(pattern)
}

fn warn_of_kept(given: &Located<String>, kind: Option<SenderRule>, f: &mut Findings) {
    let name = &given.value;
    match kind {
        Some(SenderRule::UnlessTrusted) => {
            let hint = "keep it only if the application does not trust its value";
            f.warning(&given.spot, format!("any client can send `{name}`"), hint);
        }
        Some(SenderRule::Never | SenderRule::Rewritten) => {}
        None => {
            let listed = [lists::NEVER, lists::OF_DEFENCES, lists::UNLESS_TRUSTED].concat();
            let hint = nearest(name, listed.into_iter()).map(|known| format!("did you mean `{known}`?"));
            f.warning(&given.spot, format!("`{name}` is not removed anyway"), hint.unwrap_or_default());
        }
    }
}
