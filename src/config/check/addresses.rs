//! `listen` and `upstream`: addresses to listen at and to forward to.

use super::super::diagnostic::{Findings, Spot};
use super::super::section::StringList;
use super::super::values::{ListenUrl, UpstreamUrl};
use super::fields::{distinct, parsed};
use crate::net::listener::ListenAddress;
use crate::proxy::upstream::UpstreamAddress;

/// `listen`, at least one.
pub(super) fn listen(list: Option<&StringList>, whole: &Spot, f: &mut Findings) -> Vec<ListenAddress> {
    required(list, "listen", "http://[::]:8080", whole, f);
    let items = distinct(list, f);
    items.into_iter().filter_map(|item| parsed::<ListenUrl>(item, f)).map(|url| url.0).collect()
}

/// `upstream` as the first group.
pub(super) fn upstreams(
    list: Option<&StringList>,
    whole: &Spot,
    f: &mut Findings,
) -> Vec<Vec<UpstreamAddress>> {
    required(list, "upstream", "http://127.0.0.1:8081", whole, f);
    vec![upstream_group(list, f)]
}

/// A group of upstreams among which the least busy wins.
pub(super) fn upstream_group(list: Option<&StringList>, f: &mut Findings) -> Vec<UpstreamAddress> {
    let items = distinct(list, f);
    items.into_iter().filter_map(|item| parsed::<UpstreamUrl>(item, f)).map(|url| url.0).collect()
}

fn required(list: Option<&StringList>, key: &str, example: &str, whole: &Spot, f: &mut Findings) {
    let hint = format!("{key} = \"{example}\"");
    match list {
        None => f.error(whole, format!("`{key}` is missing"), hint),
        Some(list) if list.is_empty => f.error(&list.spot, format!("`{key}` is empty"), hint),
        Some(_) => {}
    }
}
