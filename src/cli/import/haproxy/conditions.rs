//! Conditions of rules: `acl` lines and `{ ... }`, which all have to hold.

use super::sections::{ConfigLine, ProxySection};
use crate::cli::import::imported::{is_host, patterns, prefix};
use crate::cli::import::path_patterns::{beginning, of_regex};
use crate::cli::import::times::seconds;

/// What a rule requires.
#[derive(Debug, Default)]
pub(super) struct RuleConditions {
    pub(super) paths: Vec<String>,
    pub(super) hosts: Vec<String>,
    pub(super) exempt: Vec<String>,
    /// Whether requests that only read are left out.
    pub(super) is_of_writes: bool,
    pub(super) counter: Option<RateCounter>,
    pub(super) differences: Vec<&'static str>,
}

/// A counter that has to be above a number.
#[derive(Debug, Clone, Default)]
pub(super) struct RateCounter {
    /// As in `http_req_rate`.
    pub(super) name: String,
    slot: Option<char>,
    table: Option<String>,
    pub(super) above: u32,
}

impl RateCounter {
    /// For the name of a limit.
    pub(super) fn short_name(&self) -> String {
        self.name.trim_start_matches("http_").replace('_', "-")
    }
}

/// What a stick table counts by.
#[derive(Debug)]
pub(super) struct TrackedKey {
    pub(super) text: String,
    pub(super) difference: Option<&'static str>,
}

/// Why a rule is not carried over.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ConditionLoss {
    #[error("`or` has no counterpart: write two rules")]
    Or,
    #[error("`unless` has no counterpart: write the rule with `if`")]
    Unless,
    #[error("condition `{0}` has no counterpart")]
    Condition(String),
    #[error("no `acl {0}` in this section")]
    Unknown(String),
}

impl RuleConditions {
    /// The places as patterns; none if a path has no pattern.
    pub(super) fn patterns(&self) -> Vec<String> {
        let method = if self.is_of_writes { "POST" } else { "ANY" };
        match self.paths.is_empty() {
            true => vec![format!("{method} /**")],
            false => patterns(method, self.paths.iter().cloned()),
        }
    }

    /// Adds the conditions of a line behind its `if`.
    pub(super) fn read(&mut self, section: &ProxySection, line: &ConfigLine) -> Result<(), ConditionLoss> {
        if line.words.iter().any(|word| word == "unless") {
            return Err(ConditionLoss::Unless);
        }
        let mut words = line.words.iter().skip_while(|word| *word != "if").skip(1);
        while let Some(word) = words.next() {
            let (is_negated, name) = match word.strip_prefix('!') {
                Some("") => (true, words.next().map_or("", String::as_str)),
                Some(name) => (true, name),
                None => (false, word.as_str()),
            };
            let mut term = Self::default();
            match name {
                "or" | "||" => return Err(ConditionLoss::Or),
                "{" => {
                    let expression = words.by_ref().take_while(|word| *word != "}").map(String::as_str);
                    term.add(&expression.collect::<Vec<_>>(), is_negated)?;
                }
                _ => term.add_named(section, name, is_negated)?,
            }
            self.require(term, name)?;
        }
        Ok(())
    }

    /// Adds what has to hold as well.
    fn require(&mut self, term: Self, name: &str) -> Result<(), ConditionLoss> {
        let Self { paths, hosts, exempt, is_of_writes, counter, differences } = term;
        // What two conditions have in common is more than this can tell.
        let fits = |own: &[String], other: &[String]| own.is_empty() || other.is_empty() || own == other;
        if !fits(&self.paths, &paths)
            || !fits(&self.hosts, &hosts)
            || (self.counter.is_some() && counter.is_some())
        {
            return Err(ConditionLoss::Condition(name.to_owned()));
        }
        if self.paths.is_empty() {
            self.paths = paths;
        }
        if self.hosts.is_empty() {
            self.hosts = hosts;
        }
        self.exempt.extend(exempt);
        self.exempt.sort();
        self.exempt.dedup();
        self.is_of_writes |= is_of_writes;
        self.counter = self.counter.take().or(counter);
        self.differences.extend(differences);
        Ok(())
    }

    /// An `acl`; lines of the same name are alternatives, so they have to be of one kind.
    fn add_named(
        &mut self,
        section: &ProxySection,
        name: &str,
        is_negated: bool,
    ) -> Result<(), ConditionLoss> {
        match name {
            "METH_POST" if !is_negated => self.is_of_writes = true,
            "METH_GET" if is_negated => self.is_of_writes = true,
            "TRUE" | "HTTP" if !is_negated => {}
            _ => {
                let is_named = |line: &&ConfigLine| matches!(&line.words[..], [acl, own, ..] if acl == "acl" && own == name);
                let lines: Vec<&ConfigLine> = section.lines.iter().filter(is_named).collect();
                for line in &lines {
                    let expression: Vec<&str> = line.words.iter().skip(2).map(String::as_str).collect();
                    self.add(&expression, is_negated)?;
                }
                let kinds = [
                    !self.paths.is_empty(),
                    !self.hosts.is_empty(),
                    self.is_of_writes,
                    self.counter.is_some(),
                ];
                match (lines.len(), kinds.iter().filter(|kind| **kind).count()) {
                    (0, _) => return Err(ConditionLoss::Unknown(name.to_owned())),
                    (2.., 2..) => return Err(ConditionLoss::Or),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, expression: &[&str], is_negated: bool) -> Result<(), ConditionLoss> {
        let lost =
            || ConditionLoss::Condition(expression.iter().take(6).copied().collect::<Vec<_>>().join(" "));
        let (fetch, rest) = expression.split_first().ok_or_else(lost)?;
        let values: Vec<&str> = rest.iter().copied().filter(|word| !matches!(*word, "-i" | "--")).collect();
        if values.iter().any(|value| value.starts_with('-')) {
            return Err(lost());
        }
        if *fetch == "src" && is_negated {
            let prefixes: Option<Vec<String>> = values.iter().map(|value| prefix(value)).collect();
            self.exempt.extend(prefixes.ok_or_else(lost)?);
            self.exempt.sort();
            self.exempt.dedup();
            return Ok(());
        }
        if is_negated {
            return Err(lost());
        }
        match *fetch {
            "path" | "path_beg" | "path_reg" | "path_end" | "path_dir" => {
                let paths: Option<Vec<Vec<String>>> =
                    values.iter().map(|value| self.paths_of(fetch, value)).collect();
                self.paths.extend(paths.filter(|paths| !paths.is_empty()).ok_or_else(lost)?.concat());
            }
            "method" if values.contains(&"POST") && !values.contains(&"GET") => self.is_of_writes = true,
            "hdr(host)" | "req.hdr(host)" | "hdr(Host)" | "req.hdr(Host)" => {
                let hosts = values.iter().map(|value| value.to_ascii_lowercase());
                let hosts: Vec<String> =
                    hosts.filter(|host| is_host(host) && !self.hosts.contains(host)).collect();
                if hosts.is_empty() {
                    return Err(lost());
                }
                self.hosts.extend(hosts);
                self.hosts.sort();
                self.hosts.dedup();
            }
            _ => match counter(fetch, &values) {
                Some(counter) if self.counter.is_none() => self.counter = Some(counter),
                _ => return Err(lost()),
            },
        }
        Ok(())
    }

    fn paths_of(&mut self, fetch: &str, value: &str) -> Option<Vec<String>> {
        match fetch {
            "path_reg" => {
                let found = of_regex(value)?;
                self.differences.extend(found.is_wider.then_some(WIDER));
                Some(found.paths)
            }
            _ if !value.starts_with('/') => None,
            "path" => Some(vec![value.to_owned()]),
            "path_beg" => {
                self.differences.extend((!value.ends_with('/')).then_some(CUT));
                Some(vec![beginning(value)])
            }
            "path_end" => Some(vec![format!("/**{value}")]),
            _ => Some(vec![format!("/**{}", beginning(value))]),
        }
    }
}

/// `sc_http_req_rate(0) gt 20`, `sc0_http_req_rate(table) gt 20` or `src_http_req_rate(table) gt 20`.
fn counter(fetch: &str, values: &[&str]) -> Option<RateCounter> {
    let (name, arguments) = match fetch.split_once('(') {
        Some((name, arguments)) => (name, arguments.trim_end_matches(')')),
        None => (fetch, ""),
    };
    let (slot, rate, table) = match (name.strip_prefix("sc_"), name.strip_prefix("src_")) {
        (Some(rate), _) => {
            let (slot, table) = arguments.split_once(',').unwrap_or((arguments, ""));
            (Some(slot.chars().next().unwrap_or('0')), rate, table)
        }
        (_, Some(rate)) => (None, rate, arguments),
        _ => {
            let (slot, rate) = name.strip_prefix("sc")?.split_once('_')?;
            (Some(slot.chars().next()?), rate, arguments)
        }
    };
    let above = match *values {
        ["gt", number] => number.parse().ok()?,
        ["ge", number] => number.parse::<u32>().ok()?.checked_sub(1)?,
        _ => return None,
    };
    let table = Some(table.trim()).filter(|table| !table.is_empty()).map(str::to_owned);
    matches!(rate, "http_req_rate" | "http_err_rate").then(|| RateCounter {
        name: rate.to_owned(),
        slot,
        table,
        above,
    })
}

/// The stick table of a counter, what it counts by, and the line that tracks it; none for `src_...`.
pub(super) fn tracked<'f>(
    sections: &'f [ProxySection],
    own: &'f ProxySection,
    counter: &RateCounter,
) -> Option<(&'f ConfigLine, TrackedKey, Option<&'f ConfigLine>)> {
    let track = counter.slot.map(|slot| format!("track-sc{slot}"));
    let tracking = track.and_then(|track| own.lines.iter().find(|line| line.words.contains(&track)));
    if counter.slot.is_some() && tracking.is_none() {
        return None;
    }
    let after = |line: &'f ConfigLine, is_mark: &dyn Fn(&str) -> bool| {
        line.words.iter().skip_while(|word| !is_mark(word)).nth(1)
    };
    let named = tracking.and_then(|line| after(line, &|word| word == "table")).or(counter.table.as_ref());
    let section = named.map_or(Some(own), |name| sections.iter().find(|section| section.name == *name))?;
    let table =
        section.lines.iter().find(|line| line.words.first().is_some_and(|word| word == "stick-table"))?;
    let source = tracking
        .map_or(Some("src"), |line| after(line, &|word| word.starts_with("track-sc")).map(String::as_str));
    Some((table, key_of(source?)?, tracking))
}

fn key_of(source: &str) -> Option<TrackedKey> {
    let key = |text: String, difference| Some(TrackedKey { text, difference });
    let (fetch, argument) = source.split_once('(').unwrap_or((source, ""));
    let argument = argument.split([')', ',']).next().unwrap_or_default();
    let is_name = !argument.is_empty()
        && argument.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    match fetch.trim_start_matches("req.") {
        "src" => key("ip".to_owned(), None),
        "base32+src" | "url32+src" => key("ip".to_owned(), Some(TOGETHER)),
        "hdr_ip" if is_name => key("ip".to_owned(), Some(FROM_HEADER)),
        "hdr" | "fhdr" if is_name && argument.eq_ignore_ascii_case("host") => key("host".to_owned(), None),
        "hdr" | "fhdr" if is_name => key(format!("header:{}", argument.to_ascii_lowercase()), None),
        "cook" if is_name => key(format!("cookie:{argument}"), None),
        _ => None,
    }
}

/// The period of a rate that a table stores.
pub(super) fn period(table: &ConfigLine, rate: &str) -> Option<u64> {
    let mut stored = table.words.iter().flat_map(|word| word.split(','));
    let text = stored.find_map(|word| word.strip_prefix(rate)?.strip_prefix('(')?.strip_suffix(')'))?;
    // Without a unit HAProxy means milliseconds.
    let is_bare = text.bytes().all(|byte| byte.is_ascii_digit());
    let milliseconds: u64 = match text.strip_suffix("ms") {
        Some(number) => number.parse().ok()?,
        None if is_bare => text.parse().ok()?,
        None => seconds(text)?.checked_mul(1000)?,
    };
    let period = milliseconds / 1000;
    (milliseconds.is_multiple_of(1000) && (1..=LONGEST).contains(&period)).then_some(period)
}

/// Seconds of a year.
const LONGEST: u64 = 365 * 86_400;
const CUT: &str =
    "longer names that begin so, as /login2 with /login, are not counted: patterns have whole segments";
const WIDER: &str = "a part of a segment became a whole one, so more is counted";
const TOGETHER: &str = "HAProxy counted each path by itself; here all paths of the route count together";
const FROM_HEADER: &str = "any client can send this header: name the proxies that set it in client.trust";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_in_all_spellings() {
        for fetch in
            ["sc_http_req_rate(0)", "sc0_http_req_rate", "sc_http_req_rate(0,web)", "src_http_req_rate(web)"]
        {
            let counter = counter(fetch, &["gt", "20"]).unwrap();
            assert_eq!((&*counter.name, counter.above), ("http_req_rate", 20), "{fetch}");
        }
        assert_eq!(counter("sc_http_err_rate(1)", &["ge", "10"]).unwrap().above, 9);
        assert!(counter("sc_conn_cur(0)", &["gt", "20"]).is_none());
    }

    #[test]
    fn periods_are_whole_seconds() {
        let table =
            |stored: &str| ConfigLine { number: 1, words: vec!["store".to_owned(), stored.to_owned()] };
        assert_eq!(period(&table("http_req_rate(10s)"), "http_req_rate"), Some(10));
        assert_eq!(period(&table("conn_cur,http_req_rate(5m),gpc0"), "http_req_rate"), Some(300));
        assert_eq!(period(&table("http_err_rate(60000)"), "http_err_rate"), Some(60));
        assert_eq!(period(&table("http_req_rate(500ms)"), "http_req_rate"), None);
        assert_eq!(period(&table("http_err_rate(10s)"), "http_req_rate"), None);
    }
}
