//! `[limit.NAME.rates]`: other rates for some clients, in the shape of the limit.

use std::collections::HashMap;
use std::sync::Arc;

use ipnet::IpNet;

use super::super::diagnostic::Findings;
use super::super::document::Located;
use super::super::raw::RawNamed;
use super::buckets::of_rate;
use super::fields::parsed;
use super::networks::Networks;
use super::rate_parts::{Extras, GivenRate};
use super::shapes::BucketShape;
use crate::policy::ClassRate;
use crate::policy::network::NetworkMap;

/// The rates by network. Without a shape, after a mistake in it, only their grammar is checked.
pub(super) fn check(
    raw: &[RawNamed<Located<String>>],
    networks: &Networks<'_>,
    shape: Option<&BucketShape>,
    extras: &Extras,
    f: &mut Findings,
) -> NetworkMap<ClassRate> {
    let mut rates = NetworkMap::default();
    let mut seen: HashMap<IpNet, &str> = HashMap::new();
    for (index, RawNamed { name, value: text }) in raw.iter().enumerate() {
        let rate = if text.value == "off" { None } else { parsed(text, f) };
        let spec = rate.and_then(|rate| of_rate(shape?, GivenRate { rate, text }, extras, f));
        let class: Arc<str> = name.value.as_str().into();
        for net in networks.resolve(name, f) {
            if let Some(earlier) = seen.insert(net, &name.value).filter(|earlier| *earlier != name.value) {
                f.error(&name.spot, format!("{net} has a rate already"), format!("as part of `{earlier}`"));
            }
            rates.insert(net, ClassRate { class: Arc::clone(&class), number: index + 1, spec });
        }
    }
    rates
}
