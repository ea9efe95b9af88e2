//! Reads HAProxy: stick tables that count requests, what tracks them, and what denies above a number.
//!
//! A rule is carried over if all its conditions have words here: paths, hosts, methods, source addresses and the counter
//! itself. One that is not understood could narrow the rule, so the rule is a loss.

mod conditions;
mod sections;

use self::conditions::{RuleConditions, TrackedKey};
use self::sections::{ConfigLine, ProxySection, parse};
use super::imported::{Imported, ImportedLimit, ImportedRoute, SourceNote, UniqueNames, upstream};
use super::rates::{OldRule, WrittenRate, WrittenShape};

/// What a file of HAProxy says.
pub(super) fn read(text: &str) -> Imported {
    let sections = parse(text);
    let mut reader = HaproxyReader {
        sections: &sections,
        out: Imported::default(),
        limits: UniqueNames::default(),
        routes: UniqueNames::default(),
    };
    for section in &sections {
        reader.read_section(section);
    }
    reader.finish()
}

struct HaproxyReader<'f> {
    sections: &'f [ProxySection],
    out: Imported,
    limits: UniqueNames,
    routes: UniqueNames,
}

impl HaproxyReader<'_> {
    fn read_section(&mut self, section: &ProxySection) {
        for line in &section.lines {
            let words: Vec<&str> = line.words.iter().map(String::as_str).collect();
            match words[..] {
                ["bind", addresses, ..] => self.read_bind(line, addresses, &words),
                ["http-request", "deny" | "tarpit" | "reject", ..] => self.read_denial(section, line),
                ["http-request" | "tcp-request", ..]
                    if words.iter().any(|word| word.starts_with("track-sc")) => {}
                ["tcp-request", ..] => {
                    self.lose(line, "proxy.client_rate and proxy.client_max bound connections")
                }
                ["use_backend", ..] => self.lose(line, "write `upstream` into the route of these paths"),
                ["acl" | "stick-table" | "default_backend" | "server" | "mode", ..] => {}
                [name, ..] => self.out.lose(line.number, shortened(name), reason(name)),
                [] => {}
            }
        }
        if self.out.upstream.is_empty() {
            self.read_upstream(section);
        }
    }

    fn lose(&mut self, line: &ConfigLine, why: impl Into<String>) {
        self.out.lose(line.number, shortened(&line.words.join(" ")), why);
    }

    fn read_bind(&mut self, line: &ConfigLine, addresses: &str, words: &[&str]) {
        if words.contains(&"ssl") {
            return self.lose(line, "write listen = \"https://[::]:443\", and the certificate into [tls]");
        }
        for address in addresses.split(',') {
            let url = match address.rsplit_once(':') {
                Some(("" | "*" | "0.0.0.0" | "::" | "[::]", port)) => format!("http://[::]:{port}"),
                _ => format!("http://{address}"),
            };
            if !self.out.add_listen(url) {
                self.lose(line, "not an address to listen at");
            }
        }
    }

    /// The servers of the section, or of the backend that it names as the default.
    fn read_upstream(&mut self, section: &ProxySection) {
        let default = section.lines.iter().find_map(|line| match &line.words[..] {
            [word, name, ..] if word == "default_backend" => Some(name),
            _ => None,
        });
        let is_wanted = |other: &&ProxySection| match default {
            Some(name) => other.kind == "backend" && other.name == *name,
            None => section.kind == "listen" && other.name == section.name,
        };
        let Some(backend) = self.sections.iter().find(is_wanted) else { return };
        for line in &backend.lines {
            let [word, _, address, ..] = &line.words[..] else { continue };
            if word != "server" {
                continue;
            }
            let url = match line.words.iter().any(|word| word == "ssl") {
                true => format!("https://{address}"),
                false => format!("http://{address}"),
            };
            match upstream(url) {
                Some(url) if !self.out.upstream.contains(&url) => self.out.upstream.push(url),
                Some(_) => {}
                None => self.lose(line, "not an address that the gate can know: write `upstream`"),
            }
        }
    }

    /// `http-request deny if ...`.
    fn read_denial(&mut self, section: &ProxySection, line: &ConfigLine) {
        let mut rule = RuleConditions::default();
        if let Err(loss) = rule.read(section, line) {
            return self.lose(line, loss.to_string());
        }
        let Some(counter) = rule.counter.clone() else {
            return self.lose(
                line,
                "tollgate limits and forbids nobody: keep this in the application or the firewall",
            );
        };
        let Some((table, key, tracking)) = conditions::tracked(self.sections, section, &counter) else {
            return self.lose(line, "its counter is of no stick-table or track-sc that can be read here");
        };
        if let Some(tracking) = tracking
            && let Err(loss) = rule.read(section, tracking)
        {
            return self.lose(tracking, loss.to_string());
        }
        let Some(period) = conditions::period(table, &counter.name) else {
            return self.lose(line, "its stick-table does not store this rate, in whole seconds");
        };
        if !(1..=LARGEST_COUNT).contains(&counter.above) {
            return self.lose(line, "a limit admits 1 to 1,000,000");
        }
        if rule.patterns().is_empty() {
            return self
                .lose(line, "no pattern stands for this path: write a route for the paths that it means");
        }
        let name = self.add_limit(line, table, &key, period, &rule);
        self.read_status(line);
        self.add_route(line, tracking, name, &rule);
    }

    fn add_limit(
        &mut self,
        line: &ConfigLine,
        table: &ConfigLine,
        key: &TrackedKey,
        period: u64,
        rule: &RuleConditions,
    ) -> String {
        let counter = rule.counter.clone().unwrap_or_default();
        let count = counter.above;
        let name = self.limits.take(&counter.short_name(), "limit");
        // A window of up to ten periods; a window of one is one that starts with its first attempt.
        let parts = (1..=10).rev().find(|parts| period.is_multiple_of(*parts)).unwrap_or(1);
        let shape = WrittenShape::Rolling { every: period / parts };
        if let Some(difference) = key.difference {
            self.lose(line, difference);
        }
        self.lose(
            line,
            "HAProxy counted refused requests, too: here they are free; add `debt` to make them cost",
        );
        let rate = WrittenRate { count, period, burst: count, shape };
        self.out.limits.push(ImportedLimit {
            key: key.text.clone(),
            exempt: rule.exempt.clone(),
            counts_failures: counter.name.contains("err"),
            notes: [table, line]
                .map(|line| SourceNote::new(line.number, shortened(&line.words.join(" "))))
                .to_vec(),
            ..ImportedLimit::new(name.clone(), rate, OldRule::Window { count: count.into(), period })
        });
        name
    }

    fn read_status(&mut self, line: &ConfigLine) {
        let mut words = line.words.iter().skip_while(|word| !matches!(&***word, "deny_status" | "status"));
        let status = words.nth(1).and_then(|word| word.parse::<u16>().ok());
        match status {
            Some(429) => {}
            Some(status @ (403 | 503)) => self.out.refused_status = Some(status),
            _ => self.lose(line, "refusals answer 429, with Retry-After"),
        }
    }

    fn add_route(
        &mut self,
        line: &ConfigLine,
        tracking: Option<&ConfigLine>,
        limit: String,
        rule: &RuleConditions,
    ) {
        let patterns = rule.patterns();
        for difference in &rule.differences {
            self.lose(line, *difference);
        }
        let same = |route: &&mut ImportedRoute| route.patterns == patterns && route.hosts == rule.hosts;
        if let Some(route) = self.out.routes.iter_mut().find(same) {
            route.limits.push(limit);
            return;
        }
        let first = rule.paths.first().map_or("all", String::as_str);
        let lines = std::iter::once(line).chain(tracking);
        self.out.routes.push(ImportedRoute {
            name: self.routes.take(first, "site"),
            patterns,
            hosts: rule.hosts.clone(),
            limits: vec![limit],
            notes: lines.map(|line| SourceNote::new(line.number, shortened(&line.words.join(" ")))).collect(),
            ..ImportedRoute::default()
        });
    }

    /// Places of one path come before those of all, and pay for these, too.
    fn finish(mut self) -> Imported {
        let is_wide = |route: &ImportedRoute| route.patterns.iter().all(|pattern| pattern == "ANY /**");
        self.out.routes.sort_by_key(|route| (is_wide(route), route.hosts.is_empty()));
        let wide: Vec<(Vec<String>, Vec<String>)> = self
            .out
            .routes
            .iter()
            .filter(|route| is_wide(route))
            .map(|route| (route.hosts.clone(), route.limits.clone()))
            .collect();
        for route in self.out.routes.iter_mut().filter(|route| !is_wide(route)) {
            for (_, limits) in wide.iter().filter(|(hosts, _)| hosts.is_empty() || *hosts == route.hosts) {
                route.limits.extend(limits.iter().cloned());
            }
        }
        self.out
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_SHOWN).collect()
}

fn reason(name: &str) -> &'static str {
    let known = REASONS.iter().find(|(names, _)| names.split(' ').any(|known| known == name));
    known.map_or("has no counterpart here, or is not understood", |(_, reason)| reason)
}

const REASONS: [(&str, &str); 4] = [
    ("timeout option retries", "[proxy] has time-outs; X-Forwarded-For is always set"),
    ("log stats user group daemon chroot pidfile maxconn nbthread", "about HAProxy itself"),
    ("balance cookie stick hash-type", "of several upstreams the least busy one is used"),
    ("http-response http-request redirect errorfile", "tollgate changes neither requests nor answers"),
];
/// Requests that a rule may admit in a period.
const LARGEST_COUNT: u32 = 1_000_000;
/// Letters of a line that a comment shows.
const LONGEST_SHOWN: usize = 160;
