//! The file of another program, in tollgate's words: limits, places, exemptions, and what has no counterpart.
//!
//! Each reader makes one [`Imported`]. Values are parsed by the functions here as `check` parses them, so that what is
//! written is valid; a text that is not becomes a loss.

use std::collections::{BTreeMap, HashMap};

use super::rates::{OldRule, WrittenRate};
use crate::config::values::{ListenUrl, Prefix, UpstreamUrl};
use crate::policy::matcher::{HostPattern, Pattern};

/// A file of another program.
#[derive(Debug, Default)]
pub(super) struct Imported {
    /// Where it listens without TLS.
    pub(super) listen: Vec<String>,
    /// Where it forwards to.
    pub(super) upstream: Vec<String>,
    /// Proxies that it trusts to name the client.
    pub(super) trust: Vec<String>,
    /// The header in which they do.
    pub(super) header: Option<String>,
    /// Whether they speak the PROXY protocol.
    pub(super) has_proxy_protocol: bool,
    /// The status of a refusal.
    pub(super) refused_status: Option<u16>,
    /// Names for prefixes.
    pub(super) networks: BTreeMap<String, Vec<String>>,
    /// Places, the most specific first.
    pub(super) routes: Vec<ImportedRoute>,
    /// Limits of these places.
    pub(super) limits: Vec<ImportedLimit>,
    losses: BTreeMap<(String, String), Vec<usize>>,
}

/// A place that has limits, or that is free of those of a wider place.
#[derive(Debug, Default)]
pub(super) struct ImportedRoute {
    pub(super) name: String,
    pub(super) patterns: Vec<String>,
    /// The preset of a known application, in place of patterns.
    pub(super) preset: Option<&'static str>,
    pub(super) hosts: Vec<String>,
    /// Whether it also has the hosts that no route names.
    pub(super) takes_other_hosts: bool,
    pub(super) upstream: Vec<String>,
    /// Names of limits; none if the place is free.
    pub(super) limits: Vec<String>,
    pub(super) in_flight: Option<u32>,
    /// Further lines.
    pub(super) keys: Vec<&'static str>,
    pub(super) notes: Vec<SourceNote>,
}

/// How often.
#[derive(Debug)]
pub(super) struct ImportedLimit {
    pub(super) name: String,
    pub(super) key: String,
    pub(super) rate: WrittenRate,
    /// Names of networks, and prefixes.
    pub(super) exempt: Vec<String>,
    pub(super) in_flight: Option<u32>,
    pub(super) counts_failures: bool,
    pub(super) is_observed: bool,
    /// What the old rule admitted.
    pub(super) old: OldRule,
    pub(super) notes: Vec<SourceNote>,
}

/// What a line of the source says about what is written here.
#[derive(Debug, Clone)]
pub(super) struct SourceNote {
    pub(super) line: usize,
    pub(super) text: String,
}

impl ImportedLimit {
    /// A limit of all attempts by address, without exemptions and notes.
    pub(super) fn new(name: String, rate: WrittenRate, old: OldRule) -> Self {
        Self {
            name,
            key: "ip".to_owned(),
            rate,
            exempt: Vec::new(),
            in_flight: None,
            counts_failures: false,
            is_observed: false,
            old,
            notes: Vec::new(),
        }
    }
}

impl SourceNote {
    pub(super) fn new(line: usize, text: impl Into<String>) -> Self {
        Self { line, text: text.into() }
    }
}

/// What is not carried over.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Loss<'i> {
    pub(super) lines: &'i [usize],
    pub(super) what: &'i str,
    pub(super) why: &'i str,
}

impl Imported {
    /// Whether anything that concerns limits or clients was understood.
    pub(super) fn has_something(&self) -> bool {
        !self.limits.is_empty() || !self.trust.is_empty() || !self.networks.is_empty()
    }

    /// Reports that something of a line is not carried over. The same words of several lines are one loss.
    pub(super) fn lose(&mut self, line: usize, what: impl Into<String>, why: impl Into<String>) {
        let lines = self.losses.entry((what.into(), why.into())).or_default();
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }

    /// All losses by their first line.
    pub(super) fn losses(&self) -> Vec<Loss<'_>> {
        let losses = self.losses.iter().map(|((what, why), lines)| Loss { lines, what, why });
        let mut losses: Vec<Loss<'_>> = losses.collect();
        losses.sort();
        losses
    }

    /// Adds an address to listen at, unless it is there.
    pub(super) fn add_listen(&mut self, url: String) -> bool {
        let is_valid = url.parse::<ListenUrl>().is_ok();
        if is_valid && !self.listen.contains(&url) {
            self.listen.push(url);
        }
        is_valid
    }

    /// Adds prefixes to a named network.
    pub(super) fn name_network(&mut self, name: &str, prefixes: impl IntoIterator<Item = String>) {
        let network = self.networks.entry(name.to_owned()).or_default();
        for prefix in prefixes {
            if !network.contains(&prefix) {
                network.push(prefix);
            }
        }
    }
}

/// Names that are given out once each: those that are taken, with the last number behind each.
#[derive(Debug, Default)]
pub(super) struct UniqueNames(HashMap<String, usize>);

impl UniqueNames {
    /// The text as a name; a number follows if it is taken.
    pub(super) fn take(&mut self, text: &str, otherwise: &str) -> String {
        let base = plain_name(text, otherwise);
        let mut number = self.0.get(&base).copied().unwrap_or(0);
        loop {
            number += 1;
            let name = if number == 1 { base.clone() } else { format!("{base}-{number}") };
            if !self.0.contains_key(&name) {
                self.0.insert(name.clone(), 1);
                self.0.insert(base, number);
                return name;
            }
        }
    }
}

/// A text as a name of a route, a limit or a network.
pub(super) fn plain_name(text: &str, otherwise: &str) -> String {
    let mut name = String::new();
    for letter in text.chars().take(LONGEST_NAME) {
        match letter {
            _ if letter.is_ascii_alphanumeric() || letter == '_' => name.push(letter),
            _ if name.is_empty() || name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    match name.trim_end_matches('-') {
        "" | "off" => otherwise.to_owned(),
        name => name.to_owned(),
    }
}

/// A prefix as `check` reads it without a warning.
pub(super) fn prefix(text: &str) -> Option<String> {
    let prefix: Prefix = text.parse().ok()?;
    match prefix.host_bits {
        true => Some(prefix.net.to_string()),
        false => Some(text.to_owned()),
    }
}

/// An upstream as `check` reads it.
pub(super) fn upstream(url: String) -> Option<String> {
    (!url.contains('$') && url.parse::<UpstreamUrl>().is_ok()).then_some(url)
}

/// Whether a text is a host or `*.` and a name.
pub(super) fn is_host(text: &str) -> bool {
    text != "*" && !text.contains(':') && HostPattern::new(text).is_some()
}

/// Patterns of a method and these paths, each once, without those that `check` refuses.
pub(super) fn patterns(method: &str, paths: impl IntoIterator<Item = String>) -> Vec<String> {
    let (mut known, mut texts) = (Vec::new(), Vec::new());
    for path in paths.into_iter().filter(|path| !path.contains('?')) {
        let text = format!("{method} {path}");
        match Pattern::parse(&text) {
            Ok(pattern) if !known.contains(&pattern) => {
                known.push(pattern);
                texts.push(text);
            }
            _ => {}
        }
    }
    texts
}

/// Letters of a name from a file; a number may follow.
const LONGEST_NAME: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_out_once() {
        let mut names = UniqueNames::default();
        let taken = ["/login", "login", "login-2", "/", "~", &"x/".repeat(100), &"x/".repeat(100)];
        let taken: Vec<String> = taken.iter().map(|text| names.take(text, "site")).collect();
        assert_eq!(taken[..5], ["login", "login-2", "login-2-2", "site", "site-2"]);
        assert!(taken[5] != taken[6] && taken[6].len() < 64, "{taken:?}");
    }
}
