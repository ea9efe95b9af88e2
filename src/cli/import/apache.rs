//! Reads mod_evasive of Apache: requests for one page, and for the whole site, within an interval; then a block.
//!
//! mod_evasive counts each page by itself. The gate has no buckets by page, so the rule of pages becomes one of the sign-in
//! form, for which it matters most.

use std::collections::HashMap;

use http::HeaderName;

use super::imported::{Imported, ImportedLimit, ImportedRoute, SourceNote, is_host, prefix, upstream};
use super::rates::{OldRule, WrittenRate, WrittenShape};

/// What a file of Apache says.
pub(super) fn read(text: &str) -> Imported {
    let mut reader = ApacheReader::default();
    for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        reader.read_line(at + 1, line.trim());
    }
    reader.finish()
}

#[derive(Default)]
struct ApacheReader {
    out: Imported,
    /// Numbers of mod_evasive by directive, in lower case.
    numbers: HashMap<&'static str, (usize, u64)>,
    exempt: Vec<String>,
    hosts: Vec<String>,
}

impl ApacheReader {
    fn read_line(&mut self, number: usize, line: &str) {
        let mut words = line.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
        let Some(name) = words.next().filter(|name| !name.starts_with('#')) else { return };
        let values: Vec<&str> = words.collect();
        let what = || line.chars().take(LONGEST_SHOWN).collect::<String>();
        let lower = name.to_ascii_lowercase();
        if let Some(known) = NUMBERS.iter().find(|known| **known == lower) {
            match values
                .first()
                .and_then(|value| value.parse().ok())
                .filter(|value| (1..=LARGEST).contains(value))
            {
                Some(value) => drop(self.numbers.insert(known, (number, value))),
                None => self.out.lose(number, what(), "not a number from 1 to 1,000,000"),
            }
            return;
        }
        let is_read = match (&*lower, &values[..]) {
            ("doswhitelist", values) => {
                self.read_whitelist(number, values);
                true
            }
            ("servername" | "serveralias", values) => self.read_hosts(values),
            ("remoteipinternalproxy" | "remoteiptrustedproxy", values) => self.read_proxies(values),
            ("remoteipheader", [header, ..]) if header.parse::<HeaderName>().is_ok() => {
                self.out.header = Some((*header).to_owned());
                true
            }
            ("listen", [address, ..]) => self.read_listen(address, values.contains(&"https")),
            ("proxypass", ["/", url, ..]) => self.read_upstream(url),
            _ => name.starts_with('<'),
        };
        if !is_read {
            let reason = REASONS.iter().find(|(known, _)| lower.starts_with(known));
            self.out.lose(number, what(), reason.map_or(UNKNOWN, |(_, reason)| reason));
        }
    }

    fn read_hosts(&mut self, values: &[&str]) -> bool {
        let mut are_hosts = true;
        for host in values.iter().map(|host| host.to_ascii_lowercase()) {
            let host = host.split(':').next().unwrap_or_default().to_owned();
            are_hosts &= is_host(&host);
            if is_host(&host) && !self.hosts.contains(&host) {
                self.hosts.push(host);
            }
        }
        are_hosts
    }

    fn read_proxies(&mut self, values: &[&str]) -> bool {
        let prefixes: Vec<String> = values.iter().filter_map(|value| prefix(value)).collect();
        let are_prefixes = prefixes.len() == values.len();
        for prefix in prefixes {
            if !self.out.trust.contains(&prefix) {
                self.out.trust.push(prefix);
            }
        }
        are_prefixes
    }

    fn read_listen(&mut self, address: &str, has_tls: bool) -> bool {
        let is_port = address.bytes().all(|byte| byte.is_ascii_digit());
        let url = if is_port { format!("http://[::]:{address}") } else { format!("http://{address}") };
        address != "443" && !has_tls && self.out.add_listen(url)
    }

    fn read_upstream(&mut self, url: &str) -> bool {
        let Some(url) = upstream(url.to_owned()) else { return false };
        if !self.out.upstream.contains(&url) {
            self.out.upstream.push(url);
        }
        true
    }

    /// Addresses, of which the last parts may be `*`.
    fn read_whitelist(&mut self, number: usize, values: &[&str]) {
        for value in values {
            let parts: Vec<&str> = value.split('.').collect();
            let fixed: Vec<&str> = parts.iter().copied().take_while(|part| *part != "*").collect();
            let text = match parts.len() == 4 && fixed.len() < 4 {
                true => {
                    let zeros = std::iter::repeat_n("0", 4 - fixed.len());
                    let address: Vec<&str> = fixed.iter().copied().chain(zeros).collect();
                    format!("{}/{}", address.join("."), fixed.len() * 8)
                }
                false => (*value).to_owned(),
            };
            match prefix(&text) {
                Some(prefix) if !self.exempt.contains(&prefix) => self.exempt.push(prefix),
                Some(_) => {}
                None => self.out.lose(
                    number,
                    format!("DOSWhitelist {value}"),
                    "not an address: add it to `exempt`",
                ),
            }
        }
    }

    fn finish(mut self) -> Imported {
        let page = self.add_limit("page", "dospagecount", "dospageinterval");
        let site = self.add_limit("site", "dossitecount", "dossiteinterval");
        if let Some(line) = page {
            let why = "mod_evasive counts each page by itself; write the forms that matter into `match` of [route.login]";
            self.out.lose(line, "DOSPageCount", why);
        }
        if let Some(line) = page.or(site) {
            self.out.lose(line, "status", "mod_evasive answered 403; refusals answer 429, with Retry-After");
            let of = |limits: [Option<&str>; 2]| limits.into_iter().flatten().map(str::to_owned).collect();
            let (page, site) = (page.map(|_| "page"), site.map(|_| "site"));
            let places = [("login", "POST /login", of([page, site])), ("site", "ANY /**", of([None, site]))];
            for (name, pattern, limits) in places {
                let limits: Vec<String> = limits;
                self.out.routes.extend((!limits.is_empty()).then(|| ImportedRoute {
                    name: name.to_owned(),
                    patterns: vec![pattern.to_owned()],
                    hosts: self.hosts.clone(),
                    takes_other_hosts: true,
                    limits,
                    ..ImportedRoute::default()
                }));
            }
        }
        self.out
    }

    /// The limit of a count, and its line.
    fn add_limit(&mut self, name: &str, count: &'static str, interval: &'static str) -> Option<usize> {
        let (line, count) = *self.numbers.get(count)?;
        let period = self.numbers.get(interval).map_or(1, |(_, period)| *period);
        let wait = self.numbers.get("dosblockingperiod").map_or(10, |(_, wait)| *wait);
        let tokens = u32::try_from(count).ok()?;
        let shape = WrittenShape::Block { wait };
        let text = format!("{count} for each {name} in {period}s, then a block of {wait}s");
        let rate = WrittenRate { count: tokens, period, burst: tokens, shape };
        self.out.limits.push(ImportedLimit {
            exempt: self.exempt.clone(),
            notes: vec![SourceNote::new(line, text)],
            ..ImportedLimit::new(name.to_owned(), rate, OldRule::Window { count, period })
        });
        Some(line)
    }
}

const NUMBERS: [&str; 5] =
    ["dospagecount", "dospageinterval", "dossitecount", "dossiteinterval", "dosblockingperiod"];
const REASONS: [(&str, &str); 10] = [
    ("listen", "write `listen`, and for https:// the certificate into [tls]"),
    ("proxypass", "write the address of the application as `upstream`; paths are forwarded as they are"),
    ("remoteip", "client.trust takes prefixes and networks, client.header a name"),
    ("doshashtablesize", "store.capacity bounds memory"),
    ("dosemailnotify", "metrics and log.decisions have all refusals"),
    ("dossystemcommand", "metrics and log.decisions have all refusals"),
    ("doslogdir", "log.decisions has all refusals"),
    ("ssl", "write certificates into [tls]"),
    ("server", "hosts are names or *.NAME"),
    ("require", "tollgate limits and forbids nobody: keep this in the application or the firewall"),
];
const UNKNOWN: &str = "has no counterpart here, or is not understood";
/// The largest count, interval or block.
const LARGEST: u64 = 1_000_000;
/// Letters of a line that a comment shows.
const LONGEST_SHOWN: usize = 160;
