//! `ladder` of a limit: a limit for each of several prefixes, one wider than the other.
//!
//! The expansion puts each rung into the document as its own limit before it is read, so the rest of the check sees
//! limits like any other. The first rung keeps the name; the others add their IPv4 prefix to it, as in `address.24`.

use tollgate_grammar::document::{TomlEntry, TomlTable, TomlValue};
use tollgate_grammar::{Findings, Located, Spot};

use super::candidate;

/// Whether `name` is that of a rung behind the first: no limit of the file has a dot in its name.
pub(super) fn is_rung(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, prefix)| prefix.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Puts the rungs of each ladder in the place of its limit.
pub(super) fn expand(root: &mut TomlTable, f: &mut Findings) {
    let Some(TomlEntry { node: Located { value: TomlValue::Table(limits), .. }, .. }) = root.get_mut("limit")
    else {
        return;
    };
    for limit in std::mem::take(&mut limits.0) {
        limits.0.extend(rungs_of(limit, f));
    }
}

fn rungs_of(mut limit: TomlEntry, f: &mut Findings) -> Vec<TomlEntry> {
    let TomlValue::Table(table) = &mut limit.node.value else { return vec![limit] };
    let Some(ladder) = table.get("ladder").cloned() else { return vec![limit] };
    let rates = match &ladder.node.value {
        TomlValue::List(rates) if !rates.is_empty() => rates.clone(),
        TomlValue::String(_) => vec![ladder.node.clone()],
        other => {
            f.error(&ladder.node.spot, format!("{} where rates belong", other.kind()), EXAMPLE);
            vec![ladder.node.with(TomlValue::String("1/s".to_owned()))]
        }
    };
    let rungs = rungs(table, &ladder.key.spot, &rates, f);
    report_misplaced(&limit.key, table, &ladder, f);
    table.0.retain(|entry| !OF_RUNGS.contains(&entry.key.value.as_str()));
    // After a mistake one rung stands for all, so that the checks go on.
    let rungs = rungs.unwrap_or_else(|| rates.into_iter().take(1).map(Rung::of_any).collect());
    let rungs = rungs.into_iter().enumerate().map(|(number, rung)| rung.limit(number, &limit));
    rungs.collect()
}

/// Keys whose values differ from rung to rung.
const OF_RUNGS: [&str; 4] = ["ladder", "rate", "ipv4", "ipv6"];

const EXAMPLE: &str = "as in ladder = [\"10 per 5m\", \"60 per 5m\"]";

/// A rate, and the prefixes of the addresses that share a bucket.
struct Rung {
    rate: Located<TomlValue>,
    prefixes: Vec<TomlEntry>,
}

/// The rungs; `None` after a mistake.
fn rungs(
    table: &TomlTable,
    ladder: &Spot,
    rates: &[Located<TomlValue>],
    f: &mut Findings,
) -> Option<Vec<Rung>> {
    let [ipv4, ipv6] = ["ipv4", "ipv6"].map(|key| lengths(table, key, rates.len(), ladder, f));
    let both = [ipv4?, ipv6?];
    let rung = |(at, rate): (usize, &Located<TomlValue>)| Rung {
        rate: rate.clone(),
        prefixes: both.iter().filter_map(|key| key.at(at)).collect(),
    };
    Some(rates.iter().enumerate().map(rung).collect())
}

/// The prefix lengths of one address family, a rung each.
struct Lengths {
    key: Located<String>,
    values: Vec<Located<TomlValue>>,
}

impl Lengths {
    fn at(&self, rung: usize) -> Option<TomlEntry> {
        Some(TomlEntry { key: self.key.clone(), node: self.values.get(rung)?.clone() })
    }
}

fn lengths(table: &TomlTable, key: &str, count: usize, ladder: &Spot, f: &mut Findings) -> Option<Lengths> {
    let hint = format!("`{key}` has a prefix for each rate of `ladder`, each shorter than the one before");
    let Some(TomlEntry { key, node }) = table.get(key) else {
        f.error(ladder, format!("a ladder without `{key}`"), hint);
        return None;
    };
    let values = match &node.value {
        TomlValue::List(values) => values.clone(),
        _ => vec![node.clone()],
    };
    let lengths: Vec<i64> = values.iter().filter_map(|value| integer(&value.value)).collect();
    let is_widening = lengths.windows(2).all(|pair| pair[0] > pair[1]);
    if values.len() != count || lengths.len() != count || !is_widening {
        f.error(&node.spot, format!("`{}` does not fit its ladder of {count}", key.value), hint);
        return None;
    }
    Some(Lengths { key: key.clone(), values })
}

fn integer(value: &TomlValue) -> Option<i64> {
    match value {
        TomlValue::Integer(number) => Some(*number),
        _ => None,
    }
}

impl Rung {
    fn of_any(rate: Located<TomlValue>) -> Self {
        Self { rate, prefixes: Vec::new() }
    }

    /// The limit of this rung: the keys of all rungs, and its own.
    fn limit(self, number: usize, common: &TomlEntry) -> TomlEntry {
        let mut limit = common.clone();
        let prefix = self.prefixes.first().and_then(|ipv4| integer(&ipv4.node.value));
        if let Some(prefix) = prefix.filter(|_| number > 0) {
            limit.key.value = format!("{}.{prefix}", common.key.value);
        }
        if let TomlValue::Table(table) = &mut limit.node.value {
            let key = Located { value: "rate".to_owned(), spot: self.rate.spot.clone() };
            table.0.push(TomlEntry { key, node: self.rate });
            table.0.extend(self.prefixes);
        }
        limit
    }
}

/// Reports keys that say nothing about a ladder as a whole.
fn report_misplaced(name: &Located<String>, table: &TomlTable, ladder: &TomlEntry, f: &mut Findings) {
    if candidate::live_name(&name.value).is_some() {
        f.error(&ladder.key.spot, "a limit with a ladder has no candidate", "give the rung a separate limit");
    }
    if let Some(rate) = table.get("rate") {
        f.error(&rate.key.spot, "`rate` together with `ladder`", "leave it out: each rung has its own");
    }
    let rates = table.get("rates").map(|rates| &rates.node.value);
    let Some(TomlValue::Table(rates)) = rates else { return };
    for TomlEntry { node, .. } in &rates.0 {
        if !matches!(&node.value, TomlValue::String(rate) if rate == "off") {
            let hint = "\"off\", or give the rung a separate limit";
            f.error(&node.spot, "a rate for some clients of which rung?", hint);
        }
    }
}
