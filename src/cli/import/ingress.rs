//! Reads manifests of Kubernetes for ingress-nginx: its annotations that limit, its rules as places.
//!
//! The files are read by lines, as a few keys of a fixed depth are needed. ingress-nginx multiplies each rate by
//! `limit-burst-multiplier`, 5 by default, for the burst: a rate of 10 a second admits 51 at once.

use super::imported::{
    Imported, ImportedLimit, ImportedRoute, SourceNote, UniqueNames, is_host, patterns, prefix, upstream,
};
use super::path_patterns::{beginning, of_regex};
use super::rates::{OldRule, WrittenRate, WrittenShape};

/// What a file of manifests says.
pub(super) fn read(text: &str) -> Imported {
    let mut reader = ManifestReader::default();
    for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        match line.starts_with("---") {
            true => reader.end_document(),
            false => reader.read_line(at + 1, line),
        }
    }
    reader.end_document();
    reader.out
}

#[derive(Default)]
struct ManifestReader {
    out: Imported,
    limits: UniqueNames,
    routes: UniqueNames,
    document: IngressDocument,
}

/// What one manifest has said so far.
#[derive(Default)]
struct IngressDocument {
    rates: Vec<(usize, &'static str, u32, u64)>,
    multiplier: Option<u32>,
    connections: Option<u32>,
    exempt: Vec<String>,
    uses_regex: bool,
    host: Option<String>,
    paths: Vec<IngressPath>,
    service: Option<String>,
}

struct IngressPath {
    line: usize,
    path: String,
    is_exact: bool,
    host: Option<String>,
    upstream: Option<String>,
}

impl ManifestReader {
    fn read_line(&mut self, number: usize, line: &str) {
        let line = line.trim().trim_start_matches("- ").trim();
        let Some((key, value)) = line.split_once(": ") else { return };
        let (key, value) = (key.trim().trim_matches(['"', '\'']), plain(value));
        match key.rsplit_once('/') {
            Some((domain, name)) if domain.contains("ingress") => self.read_annotation(number, name, value),
            _ => self.read_rule(number, key, value),
        }
    }

    fn read_annotation(&mut self, number: usize, name: &str, value: &str) {
        let count = value.parse::<u32>().ok().filter(|count| (1..=LARGEST).contains(count));
        let document = &mut self.document;
        match (name, count) {
            ("limit-rps", Some(count)) => document.rates.push((number, "limit-rps", count, 1)),
            ("limit-rpm", Some(count)) => document.rates.push((number, "limit-rpm", count, 60)),
            ("limit-burst-multiplier", Some(count)) => document.multiplier = Some(count),
            ("limit-connections", Some(count)) => document.connections = Some(count),
            ("limit-whitelist" | "limit-allowlist", _) => {
                for entry in value.split(',').map(str::trim) {
                    match prefix(entry) {
                        Some(prefix) if !document.exempt.contains(&prefix) => document.exempt.push(prefix),
                        Some(_) => {}
                        None => self.out.lose(
                            number,
                            format!("{name} {}", shortened(entry)),
                            "not an address or a prefix",
                        ),
                    }
                }
            }
            ("use-regex", _) => document.uses_regex = value == "true",
            _ => {
                let reason = REASONS.iter().find(|(known, _)| name.starts_with(known));
                self.out.lose(number, shortened(name), reason.map_or(UNKNOWN, |(_, reason)| reason));
            }
        }
    }

    fn read_rule(&mut self, number: usize, key: &str, value: &str) {
        let document = &mut self.document;
        match key {
            "host" => {
                let host = value.to_ascii_lowercase();
                document.host = is_host(&host).then_some(host);
                if document.host.is_none() {
                    self.out.lose(number, format!("host {}", shortened(value)), "hosts are names or *.NAME");
                }
            }
            "path" if value.starts_with('/') => document.paths.push(IngressPath {
                line: number,
                path: value.to_owned(),
                is_exact: false,
                host: document.host.clone(),
                upstream: None,
            }),
            "pathType" => {
                if let Some(path) = document.paths.last_mut() {
                    path.is_exact = value == "Exact";
                }
            }
            "name" | "serviceName" => document.service = Some(value.to_owned()),
            "number" | "servicePort" => {
                let service = document.service.take();
                let url = service.and_then(|service| upstream(format!("http://{service}:{value}")));
                if let Some(path) = document.paths.last_mut() {
                    path.upstream = url.clone();
                }
                if let Some(url) = url.filter(|_| self.out.upstream.is_empty()) {
                    self.out.upstream.push(url);
                }
            }
            _ => {}
        }
    }

    fn end_document(&mut self) {
        let document = std::mem::take(&mut self.document);
        let multiplier = document.multiplier.unwrap_or(5);
        if document.rates.is_empty() {
            return;
        }
        let mut names = Vec::new();
        for &(line, name, count, period) in &document.rates {
            let burst = u64::from(count) * u64::from(multiplier);
            let Some(written) = u32::try_from(burst + 1).ok().filter(|burst| *burst <= LARGEST) else {
                self.out.lose(line, name, "its burst is too large");
                continue;
            };
            let limit = self.limits.take(name.trim_start_matches("limit-"), "limit");
            let shape = WrittenShape::Steady { wait: 0 };
            self.out.limits.push(ImportedLimit {
                name: limit.clone(),
                key: "ip".to_owned(),
                rate: WrittenRate { count, period, burst: written, shape },
                exempt: document.exempt.clone(),
                in_flight: document.connections.filter(|_| names.is_empty()),
                counts_failures: false,
                is_observed: false,
                old: OldRule::Leaky { count: count.into(), period, burst },
                notes: vec![SourceNote::new(
                    line,
                    format!("{name} {count}, with a burst of {multiplier} times as many"),
                )],
            });
            self.out.lose(line, name, "ingress-nginx answered 503; refusals answer 429, with Retry-After");
            names.push(limit);
        }
        for path in &document.paths {
            self.add_route(&document, path, &names);
        }
    }

    fn add_route(&mut self, document: &IngressDocument, path: &IngressPath, limits: &[String]) {
        let paths = match (document.uses_regex, path.is_exact) {
            (_, true) => vec![path.path.clone()],
            (true, _) => of_regex(&format!("^{}", path.path)).map(|found| found.paths).unwrap_or_default(),
            (false, false) => vec![beginning(&path.path)],
        };
        let patterns = patterns("ANY", paths);
        if patterns.is_empty() {
            return self.out.lose(
                path.line,
                format!("path {}", shortened(&path.path)),
                "no pattern stands for this path",
            );
        }
        let own = path.upstream.iter().filter(|url| !self.out.upstream.contains(*url));
        self.out.routes.push(ImportedRoute {
            name: self.routes.take(&path.path, "site"),
            patterns,
            hosts: path.host.iter().cloned().collect(),
            upstream: own.cloned().collect(),
            limits: limits.to_vec(),
            notes: vec![SourceNote::new(path.line, format!("path {}", shortened(&path.path)))],
            ..ImportedRoute::default()
        });
    }
}

/// A value without quotes and a comment.
fn plain(value: &str) -> &str {
    let value = value.trim();
    for quote in ['"', '\''] {
        if let Some((inner, _)) = value.strip_prefix(quote).and_then(|rest| rest.split_once(quote)) {
            return inner;
        }
    }
    value.split(" #").next().unwrap_or(value).trim()
}

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_SHOWN).collect()
}

const REASONS: [(&str, &str); 5] = [
    ("limit-rate", "tollgate does not slow answers down"),
    ("limit", "its value cannot be read as a number"),
    ("auth", "tollgate checks no passwords: the application does"),
    ("whitelist", "tollgate limits and forbids nobody: keep this in the application or the firewall"),
    ("rewrite", "tollgate forwards paths as they are: the application has to take them so"),
];
const UNKNOWN: &str = "has no counterpart here, or is not understood";
/// The largest rate or burst.
const LARGEST: u32 = 1_000_000;
/// Letters of a value that a comment shows.
const LONGEST_SHOWN: usize = 160;
