//! The texts of lists, as their publishers write them.
//!
//! A text without a network is not a list, and a list that was cut off is none: the one before stays in use. Networks
//! that are wider than any publisher's are left out.

use std::collections::BTreeSet;

use ipnet::{IpNet, Ipv6Net};
use serde::Deserialize;
use tollgate_grammar::words;

use super::super::proxies::is_public;
use super::super::values::Prefix;

words! {
    /// How a list is written.
    pub(in crate::config) ListFormats: ListFormat {
        "plain" => ListFormat::Plain,
        "drop" => ListFormat::Drop,
        "crowdsec" => ListFormat::CrowdSec,
    }
}

/// How a list is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListFormat {
    /// A network a line; text behind a `#`, a `;` or a blank is ignored.
    Plain,
    /// Spamhaus' DROP: a JSON object a line (<https://www.spamhaus.org/drop/drop_v4.json>).
    Drop,
    /// The decisions of CrowdSec's local API, as a stream from its start or as a list
    /// (<https://docs.crowdsec.net/docs/local_api/bouncers>).
    CrowdSec,
}

/// Why a text is no list.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListFault {
    /// There is no network in it.
    #[error("it has no network")]
    Empty,
    /// Most of it is something else.
    #[error("it is not a list of networks: `{0}`")]
    Other(String),
    /// Another number of networks than its last line says.
    #[error("it was cut off: it has {0} networks, and its last line is missing or says another number")]
    CutOff(u64),
    /// More networks than are kept.
    #[error("it has more than {MAX_NETWORKS} networks")]
    TooLong,
}

/// A line of DROP: a network, or what the list says of itself at its end.
#[derive(Deserialize)]
struct DropLine {
    cidr: Option<String>,
    records: Option<u64>,
}

/// CrowdSec's decisions since the start. An answer about a mistake has no such member.
#[derive(Deserialize)]
struct DecisionStream {
    #[serde(deserialize_with = "Option::deserialize")]
    new: Option<Vec<CrowdSecDecision>>,
}

/// A decision of CrowdSec's.
#[derive(Deserialize)]
struct CrowdSecDecision {
    scope: String,
    value: String,
}

/// The networks of a text.
///
/// # Errors
/// See [`ListFault`].
pub fn networks(format: ListFormat, text: &str) -> Result<BTreeSet<IpNet>, ListFault> {
    let found = match format {
        ListFormat::Plain => plain(text)?,
        ListFormat::Drop => drop_list(text)?,
        // Without a decision there is no network.
        ListFormat::CrowdSec => return bounded(decisions(text)?),
    };
    if found.is_empty() { Err(ListFault::Empty) } else { bounded(found) }
}

fn bounded(found: BTreeSet<IpNet>) -> Result<BTreeSet<IpNet>, ListFault> {
    if found.len() > MAX_NETWORKS { Err(ListFault::TooLong) } else { Ok(found) }
}

fn plain(text: &str) -> Result<BTreeSet<IpNet>, ListFault> {
    let (mut found, mut others, mut first) = (BTreeSet::new(), 0, None);
    for line in text.trim_start_matches('\u{feff}').lines() {
        let entry =
            line.split(|c: char| c.is_whitespace() || "#;,".contains(c)).find(|word| !word.is_empty());
        let is_comment = line.trim_start().starts_with(['#', ';']);
        let Some(entry) = entry.filter(|_| !is_comment) else { continue };
        match network(entry) {
            Some(net) => found.extend(Some(net).filter(|net| is_narrow(*net))),
            None => {
                others += 1;
                first.get_or_insert_with(|| shown(line));
            }
        }
    }
    // A few lines may be names of hosts, or for people.
    match first {
        Some(line) if others > found.len() => Err(ListFault::Other(line)),
        _ => Ok(found),
    }
}

fn drop_list(text: &str) -> Result<BTreeSet<IpNet>, ListFault> {
    let (mut found, mut count, mut said) = (BTreeSet::new(), 0, None);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let other = || ListFault::Other(shown(line));
        let entry: DropLine = serde_json::from_str(line).map_err(|_| other())?;
        said = entry.records.or(said);
        if let Some(cidr) = entry.cidr {
            count += 1;
            let net = network(&cidr).ok_or_else(other)?;
            found.extend(Some(net).filter(|net| is_narrow(*net)));
        }
    }
    if said == Some(count) { Ok(found) } else { Err(ListFault::CutOff(count)) }
}

fn decisions(text: &str) -> Result<BTreeSet<IpNet>, ListFault> {
    let other = |_| ListFault::Other(shown(text));
    let decisions = match text.trim_start().starts_with('{') {
        true => serde_json::from_str::<DecisionStream>(text).map_err(other)?.new,
        false => serde_json::from_str(text).map_err(other)?,
    };
    let of_addresses = decisions
        .into_iter()
        .flatten()
        .filter(|decision| ["ip", "range"].iter().any(|scope| decision.scope.eq_ignore_ascii_case(scope)));
    let networks = of_addresses
        .map(|decision| network(&decision.value).ok_or_else(|| ListFault::Other(shown(&decision.value))));
    Ok(networks.collect::<Result<BTreeSet<_>, _>>()?.into_iter().filter(|net| is_narrow(*net)).collect())
}

/// A network or an address, whose bits behind its prefix do not matter. Of IPv6 it is a /64 at least, which a single
/// household has.
fn network(text: &str) -> Option<IpNet> {
    let Prefix { net, .. } = text.parse().ok()?;
    let net = match net {
        IpNet::V6(wide) if wide.prefix_len() > 64 => Ipv6Net::new(wide.addr(), 64).ok()?.into(),
        _ => net,
    };
    Some(net.trunc())
}

/// Whether a network may be the operator's own: it is not public. Loopback addresses are of tests.
pub fn is_private(net: &IpNet) -> bool {
    !is_public(*net) && !net.addr().is_loopback()
}

fn is_narrow(net: IpNet) -> bool {
    net.prefix_len() >= if matches!(net, IpNet::V4(_)) { MAX_WIDTH_V4 } else { MAX_WIDTH_V6 }
}

fn shown(line: &str) -> String {
    line.trim().chars().filter(|letter| !letter.is_control()).take(MAX_SHOWN).collect()
}

/// Networks of a list at most.
const MAX_NETWORKS: usize = 250_000;
/// The widest network that counts: /8.
const MAX_WIDTH_V4: u8 = 8;
/// The same for IPv6: /16.
const MAX_WIDTH_V6: u8 = 16;
/// Characters of a text that is not a list.
const MAX_SHOWN: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(format: ListFormat, text: &str) -> Result<Vec<String>, ListFault> {
        networks(format, text).map(|found| found.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn plain_lists_are_read_as_their_publishers_write_them() {
        let text = "\u{feff}# a comment\n; another\n\n203.0.113.7\n198.51.100.0/24 ; SBL1\r\n2001:db8::/32\t# x\n\
            192.0.2.9/24,2026-01-01,5\nhost.example.org\n";
        assert_eq!(
            of(ListFormat::Plain, text).unwrap(),
            ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.7/32", "2001:db8::/32"]
        );
        assert_eq!(of(ListFormat::Plain, "2001:db8:1:2:3::4\n").unwrap(), ["2001:db8:1:2::/64"]);
    }

    #[test]
    fn networks_wider_than_any_publishers_are_left_out() {
        let text = "0.0.0.0/0\n224.0.0.0/3\n::/0\n10.0.0.0/8\n2000::/3\n";
        assert_eq!(of(ListFormat::Plain, text).unwrap(), ["10.0.0.0/8"]);
        assert_eq!(of(ListFormat::Plain, "0.0.0.0/0\n"), Err(ListFault::Empty));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["<!DOCTYPE html>\n<html>\n", "not found", "<html>\n1.2.3.4\n</html>\n<p>\n"] {
            assert!(matches!(of(ListFormat::Plain, text), Err(ListFault::Other(_))), "{text}");
        }
        assert_eq!(of(ListFormat::Plain, "# nothing\n"), Err(ListFault::Empty));
        for (format, text) in [
            (ListFormat::Drop, "{\"cidr\":\"1.2.3.0/24\"}\n{\"cidr\":"),
            (ListFormat::Drop, "<html>"),
            (ListFormat::Drop, "{\"cidr\":\"localhost\"}"),
            (ListFormat::CrowdSec, "{\"deleted\":null}"),
            (ListFormat::CrowdSec, "{\"message\":\"access forbidden\"}"),
            (ListFormat::CrowdSec, "{\"new\":[{\"scope\":\"Ip\",\"value\":\"x\"}]}"),
            (ListFormat::CrowdSec, ""),
        ] {
            assert!(matches!(of(format, text), Err(ListFault::Other(_))), "{text}");
        }
        assert_eq!(of(ListFormat::Drop, "{\"type\":\"metadata\",\"records\":0}"), Err(ListFault::Empty));
    }

    #[test]
    fn a_list_of_drop_has_as_many_networks_as_it_says() {
        let lines = "{\"cidr\":\"1.10.16.0/20\",\"sblid\":\"SBL256894\",\"rir\":\"apnic\"}\n\
            {\"cidr\":\"1.19.0.0/16\",\"sblid\":\"SBL434604\",\"rir\":\"apnic\"}\n";
        let end = |records: u32| format!("{{\"type\":\"metadata\",\"size\":1,\"records\":{records}}}\n");
        let both = ["1.10.16.0/20", "1.19.0.0/16"].map(str::to_owned);
        assert_eq!(of(ListFormat::Drop, &(lines.to_owned() + &end(2))).unwrap(), both);
        for cut_off in [lines.to_owned(), lines.to_owned() + &end(3)] {
            assert_eq!(of(ListFormat::Drop, &cut_off), Err(ListFault::CutOff(2)));
        }
    }

    #[test]
    fn decisions_of_addresses_and_ranges_count() {
        let decision = |scope: &str, value: &str| {
            format!(
                r#"{{"duration":"3h","id":1,"origin":"CAPI","scenario":"x","scope":"{scope}","type":"ban","value":"{value}"}}"#
            )
        };
        let all =
            [decision("Ip", "192.0.2.7"), decision("range", "198.51.100.0/24"), decision("Country", "XX")];
        let stream = format!("{{\"deleted\":[{}],\"new\":[{}]}}", decision("Ip", "9.9.9.9"), all.join(","));
        for text in [stream, format!("[{}]", all.join(","))] {
            assert_eq!(of(ListFormat::CrowdSec, &text).unwrap(), ["192.0.2.7/32", "198.51.100.0/24"]);
        }
        for none in ["null", "{\"deleted\":null,\"new\":null}", "[]"] {
            assert_eq!(of(ListFormat::CrowdSec, none), Ok(Vec::new()));
        }
    }
}
