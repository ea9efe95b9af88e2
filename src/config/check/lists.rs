//! `[lists.NAME]`: the networks of each list as they are on disk, and what attempts from them pay.
//!
//! A list that the gate fetches is empty until it is there.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::{HeaderValue, Uri};
use ipnet::IpNet;
use tollgate_grammar::kind::{Checked as _, Given, Text};
use tollgate_grammar::{Findings, RawNamed, Spot, name};

use super::super::features;
use super::super::ladder;
use super::super::lists::formats::{ListFormat, is_private, networks};
use super::super::lists::{FetchedList, RawNetworkList};
use super::super::values::RateValue;
use super::files::Files;
use super::secret::resolve;
use crate::bucket::{Continuous, Spec};
use crate::defences::{ListedNetworks, MAX_LISTS};
use crate::net::download::{is_allowed, is_https};
use crate::policy::Limit;
use crate::time::Span;

/// All lists of a file.
#[derive(Default)]
pub(super) struct NetworkLists<'r> {
    /// In the order of the file.
    pub(super) listed: Arc<[ListedNetworks]>,
    /// The rates of their networks.
    rates: Vec<ListRate<'r>>,
    /// Those that the gate fetches.
    pub(super) fetched: Vec<FetchedList>,
}

/// The rate of a list, as a bucket.
struct ListRate<'r> {
    /// The name of the list.
    name: &'r str,
    bucket: Continuous,
    networks: BTreeSet<IpNet>,
}

impl<'r> NetworkLists<'r> {
    pub(super) fn check(
        raw: &'r [RawNamed<RawNetworkList>],
        files: &mut Files<'_>,
        f: &mut Findings,
    ) -> Self {
        let (mut listed, mut all) = (Vec::new(), Self::default());
        if let Some(list) = raw.get(MAX_LISTS) {
            f.error(&list.name.spot, format!("there are more than {MAX_LISTS} lists"), "");
        }
        for RawNamed { name, value: raw } in raw {
            name::check(name, f);
            let cost = raw.cost.checked(f);
            let denies = raw.deny.checked(f).unwrap_or(false);
            report_effects(raw, &name.spot, denies, f);
            let networks = all.networks(&name.value, raw, &name.spot, files, f);
            warn_of_private(&name.value, &networks, raw, f);
            if let Some(bucket) = raw.rate.as_ref().and_then(|rate| bucket(rate, f)) {
                all.rates.push(ListRate { name: &name.value, bucket, networks: networks.clone() });
            }
            listed.push(ListedNetworks {
                name: name.value.clone(),
                networks: networks.into_iter().collect(),
                cost: cost.unwrap_or(1),
                denies,
            });
        }
        all.listed = listed.into();
        all
    }

    /// The networks of a list, as they are on disk.
    fn networks(
        &mut self,
        name: &str,
        raw: &RawNetworkList,
        spot: &Spot,
        files: &mut Files<'_>,
        f: &mut Findings,
    ) -> BTreeSet<IpNet> {
        let format = raw.format.checked(f).unwrap_or(ListFormat::Plain);
        let every = raw.every.checked(f).unwrap_or(EVERY);
        let Some(url) = &raw.url else {
            f.error(spot, format!("list `{name}` has no `url`"), ADDRESSES);
            return BTreeSet::new();
        };
        if let Some(path) = url.value.strip_prefix("file:") {
            if let Some(every) = &raw.every {
                f.warning(&every.spot, "a file is watched: `every` means nothing", "leave it out");
            }
            report_key(raw, format, false, f);
            return of_file(path, format, &url.spot, files, f);
        }
        let key = report_key(raw, format, true, f).then(|| key(raw, files, f)).flatten();
        let address: Option<Uri> = url.value.parse().ok().filter(is_allowed);
        let Some(address) = address else {
            f.error(&url.spot, format!("no list can be fetched from `{}`", url.value), ADDRESSES);
            return BTreeSet::new();
        };
        if format == ListFormat::CrowdSec && is_stream_of_changes(&address) {
            f.error(&url.spot, "this address tells only what has changed", "with ?startup=true it tells all");
        }
        if let Some(missing) = features::TLS.missing().filter(|_| is_https(&address)) {
            f.error(&url.spot, missing, features::HINT);
        }
        let path = files.resolve_state(&format!("list-{name}.txt"));
        let kept = files.if_there(path.clone());
        let text = kept.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if text.is_none() && !files.is_sealed {
            f.warning(
                &url.spot,
                format!("list `{name}` is empty until it is fetched"),
                "the gate fetches it when it starts",
            );
        }
        self.fetched.push(FetchedList { name: name.to_owned(), url: address, format, every, key, path });
        text.and_then(|text| networks(ListFormat::Plain, &text).ok()).unwrap_or_default()
    }
}

/// Gives limits by address the rates of lists that are slower than their own. Other shapes than a steady one have no rate
/// to compare, and limits with rungs have a rate for each.
pub(super) fn add_rates(limits: &mut [Option<Limit>], lists: &NetworkLists<'_>) {
    for limit in limits.iter_mut().flatten() {
        let Spec::Continuous(own) = limit.spec else { continue };
        if !limit.charges_weights() || ladder::is_rung(&limit.name) {
            continue;
        }
        for list in &lists.rates {
            let listed = list.bucket.with_initial(own.initial().min(list.bucket.burst()));
            let listed = listed.and_then(|bucket| bucket.with_debt(own.debt())?.with_hold(own.hold()));
            if let Some(listed) = listed.ok().filter(|listed| listed.per_token() > own.per_token()) {
                let class = limit.rates.add(&format!("list {}", list.name), Some(Spec::Continuous(listed)));
                list.networks.iter().for_each(|net| limit.rates.insert_network(*net, class));
            }
        }
    }
}

fn bucket(given: &Given<Text<RateValue>>, f: &mut Findings) -> Option<Continuous> {
    let RateValue { count, period, burst, .. } = given.checked(f)?;
    Continuous::new(count, period, burst).map_err(|error| f.error(&given.spot, error.to_string(), "")).ok()
}

/// The networks of a file that others write.
fn of_file(
    path: &str,
    format: ListFormat,
    spot: &Spot,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> BTreeSet<IpNet> {
    let Some(bytes) = files.bytes(path, spot, f) else { return BTreeSet::new() };
    networks(format, &String::from_utf8_lossy(&bytes)).unwrap_or_else(|fault| {
        let path = files.resolve(path).display().to_string();
        f.error(
            spot,
            format!("`{path}` is not used: {fault}"),
            "format is \"plain\", \"drop\" or \"crowdsec\"",
        );
        BTreeSet::new()
    })
}

/// The header's value for CrowdSec's local API.
fn key(raw: &RawNetworkList, files: &mut Files<'_>, f: &mut Findings) -> Option<HeaderValue> {
    let given = raw.key.as_deref()?;
    let (text, origin) = resolve(given, files, f)?;
    let Ok(mut value) = HeaderValue::from_str(text.trim()) else {
        f.error(&given.spot, format!("{origin} is not a valid value of a header"), "");
        return None;
    };
    value.set_sensitive(true);
    Some(value)
}

/// Whether a key belongs here; the mistake is reported if there is one without need, or none.
fn report_key(raw: &RawNetworkList, format: ListFormat, is_fetched: bool, f: &mut Findings) -> bool {
    let needs_key = is_fetched && format == ListFormat::CrowdSec;
    match (&raw.key, &raw.url) {
        (Some(key), _) if !needs_key => {
            f.error(
                &key.spot,
                "only CrowdSec's local API takes a `key`",
                "format = \"crowdsec\" and its address",
            );
        }
        (None, Some(url)) if needs_key => {
            f.error(
                &url.spot,
                "CrowdSec's local API needs a `key`",
                "`cscli bouncers add tollgate` prints one",
            );
        }
        _ => {}
    }
    needs_key
}

/// Whether CrowdSec answers what has changed since the request before.
fn is_stream_of_changes(address: &Uri) -> bool {
    let is_full = address.query().is_some_and(|query| query.split('&').any(|pair| pair == "startup=true"));
    address.path().trim_end_matches('/').ends_with("/stream") && !is_full
}

fn report_effects(raw: &RawNetworkList, spot: &Spot, denies: bool, f: &mut Findings) {
    let others = [raw.cost.as_ref().map(|cost| &cost.spot), raw.rate.as_ref().map(|rate| &rate.spot)];
    if denies {
        for other in others.into_iter().flatten() {
            f.error(other, "attempts that are denied pay nothing", "leave out this key, or `deny`");
        }
    } else if others.iter().all(Option::is_none) {
        f.error(spot, "this list changes nothing", "cost = 3, rate = \"1 per 1h\" or deny = true");
    }
}

fn warn_of_private(name: &str, networks: &BTreeSet<IpNet>, raw: &RawNetworkList, f: &mut Findings) {
    if let (Some(net), Some(url)) = (networks.iter().find(|net| is_private(net)), &raw.url) {
        let message = format!("list `{name}` holds {net}, which is not public");
        f.warning(&url.spot, message, "your own clients may be there");
    }
}

const EVERY: Span = Span::from_secs(3600);
const ADDRESSES: &str = "as in url = \"https://www.spamhaus.org/drop/drop_v4.json\" or \"file:list.txt\"";
