//! `listen` and `upstream`: addresses to listen at and to forward to.

use super::super::diagnostic::{Findings, Spot};
use super::super::raw;
use super::super::section::StringList;
use super::super::values::{ListenUrl, UpstreamUrl};
use super::endpoints::are_alone;
use super::fields::{distinct, parsed};
use crate::net::listener::ListenAddress;
use crate::proxy::upstream::UpstreamTarget;

/// `listen`, at least one where it is needed.
pub(super) fn listen(raw: &raw::RawFile, whole: &Spot, f: &mut Findings) -> Vec<ListenAddress> {
    let list = raw.listen.as_ref();
    required(list, ("listen", "http://[::]:8080", !are_alone(raw)), whole, f);
    let items = distinct(list, f);
    items.into_iter().filter_map(|item| parsed::<ListenUrl>(item, f)).map(|url| url.0).collect()
}

/// `upstream` as the first group.
pub(super) fn upstreams(raw: &raw::RawFile, whole: &Spot, f: &mut Findings) -> Vec<Vec<UpstreamTarget>> {
    let list = raw.upstream.as_ref();
    required(list, ("upstream", "http://127.0.0.1:8081", !are_alone(raw)), whole, f);
    vec![upstream_group(list, f)]
}

/// A group of upstreams among which the least busy wins.
pub(super) fn upstream_group(list: Option<&StringList>, f: &mut Findings) -> Vec<UpstreamTarget> {
    let items = distinct(list, f);
    items.into_iter().filter_map(|item| parsed::<UpstreamUrl>(item, f)).map(|url| url.0.into()).collect()
}

fn required(
    list: Option<&StringList>,
    (key, example, is_needed): (&str, &str, bool),
    whole: &Spot,
    f: &mut Findings,
) {
    let hint = format!("{key} = \"{example}\"");
    match list {
        None if !is_needed => {}
        None => f.error(whole, format!("`{key}` is missing"), hint),
        Some(list) if list.is_empty => f.error(&list.spot, format!("`{key}` is empty"), hint),
        Some(_) => {}
    }
}
