//! Servers of nginx as routes and limits.

use super::directives::Directive;
use super::keys::{KeyLoss, ZoneKey};
use super::places::{LocationKind, LocationPlace};
use super::reader::{LimitIdentity, NginxReader};
use super::words::{BLOCKS, reason};
use super::zones::{ZoneDirective, ZoneUse};
use super::{addresses, client};
use crate::cli::import::imported::{Imported, ImportedLimit, ImportedRoute, SourceNote, is_host, patterns};

/// The limits of a place.
#[derive(Debug, Default)]
struct PlaceLimits {
    names: Vec<String>,
    in_flight: Option<u32>,
    /// Whether all of them leave out requests that only read.
    is_of_writes: Option<bool>,
}

/// A server whose places are read.
struct ServerBlock {
    block: Option<usize>,
    hosts: Vec<String>,
    is_default: bool,
}

impl NginxReader<'_> {
    pub(super) fn read(mut self) -> Imported {
        self.read_zones();
        client::read(&mut self);
        let servers = self.servers();
        for server in &servers {
            addresses::read_listens(&mut self, server.block);
        }
        self.out.upstream = self.default_upstream(&servers);
        servers.iter().for_each(|server| self.read_server(server));
        self.drop_unreached_limits();
        self.name_networks();
        self.report_the_rest();
        self.out
    }

    fn read_zones(&mut self) {
        for (at, directive) in self.file.all.iter().enumerate() {
            if !matches!(&*directive.name, "limit_req_zone" | "limit_conn_zone") {
                continue;
            }
            match ZoneDirective::read(at, directive) {
                Some(zone) => drop(self.zones.insert(zone.name.clone(), zone)),
                None => self.lose(at, "it needs a key, zone=NAME:SIZE and a rate such as 5r/m"),
            }
        }
    }

    /// The servers; a file without any is one, as it may be included in one.
    fn servers(&mut self) -> Vec<ServerBlock> {
        let is_server = |directive: &Directive| {
            let within = directive.parent.map(|at| &*self.file.all[at].name);
            directive.name == "server" && directive.words.is_empty() && within != Some("upstream")
        };
        let all = self.file.all.iter().enumerate();
        let blocks: Vec<usize> =
            all.filter(|(_, directive)| is_server(directive)).map(|(at, _)| at).collect();
        if blocks.is_empty() {
            return vec![ServerBlock { block: None, hosts: Vec::new(), is_default: true }];
        }
        let is_default = |block: &usize| {
            let mut listens = self.file.named(Some(*block), "listen");
            listens.any(|at| {
                self.file.all[at].words.iter().any(|word| word == "default_server" || word == "default")
            })
        };
        let default = blocks.iter().copied().find(is_default).unwrap_or(blocks[0]);
        let servers = blocks.into_iter().map(|block| ServerBlock {
            block: Some(block),
            hosts: self.hosts(block),
            is_default: block == default,
        });
        servers.collect()
    }

    fn hosts(&mut self, server: usize) -> Vec<String> {
        let mut hosts: Vec<String> = Vec::new();
        let file = self.file;
        for at in file.named(Some(server), "server_name") {
            self.seen[at] = true;
            for word in &file.all[at].words {
                let found = match word.strip_prefix('.') {
                    Some(name) => vec![name.to_owned(), format!("*.{name}")],
                    None if matches!(&**word, "_" | "" | "*") => continue,
                    None => vec![word.clone()],
                };
                for host in found {
                    let host = host.to_ascii_lowercase();
                    match is_host(&host) {
                        true if !hosts.contains(&host) => hosts.push(host),
                        true => {}
                        false => self.lose(at, "hosts are names or *.NAME"),
                    }
                }
            }
        }
        hosts
    }

    /// Where the server forwards what no location takes, or else the first that forwards.
    fn default_upstream(&mut self, servers: &[ServerBlock]) -> Vec<String> {
        let mut first = Vec::new();
        for server in servers {
            for place in LocationPlace::of_server(self.file, server.block) {
                let upstream = addresses::upstream_of(self, place.block);
                if upstream.is_empty() {
                    continue;
                }
                if place.path == "/" {
                    return upstream;
                }
                if first.is_empty() {
                    first = upstream;
                }
            }
        }
        first
    }

    fn read_server(&mut self, server: &ServerBlock) {
        let places = LocationPlace::of_server(self.file, server.block);
        let limited: Vec<PlaceLimits> = places.iter().map(|place| self.limits_of(place)).collect();
        let is_limited = |limits: &PlaceLimits| !limits.names.is_empty() || limits.in_flight.is_some();
        let wide: Vec<&LocationPlace> = places
            .iter()
            .zip(&limited)
            .filter(|(_, limits)| is_limited(limits))
            .map(|(place, _)| place)
            .collect();
        for (place, limits) in places.iter().zip(&limited) {
            let upstream = addresses::upstream_of(self, place.block);
            let goes_elsewhere = !upstream.is_empty() && upstream != self.out.upstream;
            let is_exception = wide.iter().any(|other| place.is_within(other));
            match is_limited(limits) || goes_elsewhere || is_exception {
                true => self.add_route(server, place, limits, upstream),
                false => self.report_free_regex(place, !wide.is_empty()),
            }
        }
    }

    /// A location by a regular expression that no pattern stands for, without limits, in a server that has some.
    fn report_free_regex(&mut self, place: &LocationPlace, has_limits: bool) {
        if let Some(block) = place.block.filter(|_| has_limits && place.kind == LocationKind::Regex) {
            self.lose(block, "it was free of limits, and counts where a wider route has some");
        }
    }

    fn add_route(
        &mut self,
        server: &ServerBlock,
        place: &LocationPlace,
        limits: &PlaceLimits,
        mut upstream: Vec<String>,
    ) {
        let method = if limits.is_of_writes == Some(true) { "POST" } else { "ANY" };
        let patterns = patterns(method, place.paths.iter().cloned());
        let line = place.block.map_or(0, |block| self.file.all[block].line);
        if patterns.is_empty() {
            if let Some(block) = place.block {
                self.lose(block, "no pattern stands for this path: write routes for the paths that it means");
            }
            return;
        }
        let words = place.block.map_or_else(String::new, |block| self.file.all[block].text());
        let mut notes: Vec<SourceNote> =
            place.block.iter().map(|_| SourceNote::new(line, words.clone())).collect();
        if let (Some(difference), Some(block)) = (place.difference, place.block) {
            self.lose(block, difference);
        }
        if limits.names.is_empty() && limits.in_flight.is_none() {
            notes.push(SourceNote::new(line, "no limits here"));
        }
        if upstream == self.out.upstream {
            upstream.clear();
        }
        let has_passwords = self.has_basic(place.block);
        self.out.routes.push(ImportedRoute {
            name: self.route_names.take(&place.path, "site"),
            patterns,
            hosts: server.hosts.clone(),
            takes_other_hosts: server.is_default,
            upstream,
            limits: limits.names.clone(),
            in_flight: limits.in_flight,
            keys: if has_passwords { vec!["user = \"basic\""] } else { Vec::new() },
            notes,
            ..ImportedRoute::default()
        });
    }

    fn has_basic(&mut self, block: Option<usize>) -> bool {
        let realm = self.file.in_force(block, "auth_basic");
        let word = realm.first().and_then(|&at| self.file.all[at].words.first());
        word.is_some_and(|word| word != "off")
    }

    /// The limits that are in force in a place.
    fn limits_of(&mut self, place: &LocationPlace) -> PlaceLimits {
        let mut limits = PlaceLimits::default();
        let uses = self.file.in_force(place.block, "limit_req");
        let dry = self.setting(place.block, "limit_req_dry_run");
        let is_observed = dry.is_some_and(|directive| directive.words == ["on"]);
        let mut permits = self.connections_of(place, &mut limits, uses.is_empty());
        if let Some(&first) = uses.first() {
            self.read_status(place.block, self.file.all[first].line);
        }
        for at in uses {
            if let Some(name) = self.limit_of(at, permits, is_observed, &mut limits) {
                permits = None;
                if !limits.names.contains(&name) {
                    limits.names.push(name);
                }
            }
        }
        limits
    }

    /// `limit_conn` by client, for the first limit of the place; by host, or for all, it is the route's.
    fn connections_of(
        &mut self,
        place: &LocationPlace,
        limits: &mut PlaceLimits,
        is_alone: bool,
    ) -> Option<u32> {
        let mut permits = None;
        for at in self.file.in_force(place.block, "limit_conn") {
            let (zone, count) = match &self.file.all[at].words[..] {
                [zone, count, ..] => {
                    (zone, count.parse().ok().filter(|count| (1..=MOST_PERMITS).contains(count)))
                }
                _ => continue,
            };
            let key = self.zones.get(zone).map(|zone| self.variables.key(&zone.key));
            match (key, count) {
                (Some(Ok(key)), Some(count)) if key.text() == "host" => {
                    limits.in_flight = Some(count);
                    self.see_zone(at, zone);
                }
                (Some(Ok(_)), Some(count)) if !is_alone => {
                    permits = Some(count);
                    self.see_zone(at, zone);
                }
                (Some(Ok(_)), Some(count)) => {
                    self.lose(
                        at,
                        format!("a limit needs a rate: add in_flight = {count} to one with a rate"),
                    );
                }
                _ => self.lose(at, "its zone or its number is not understood"),
            }
        }
        permits
    }

    fn see_zone(&mut self, at: usize, zone: &str) {
        self.seen[at] = true;
        if let Some(zone) = self.zones.get(zone) {
            self.seen[zone.at] = true;
        }
    }

    /// The limit of a `limit_req`; a new one, unless the same use of the zone has one already.
    fn limit_of(
        &mut self,
        at: usize,
        in_flight: Option<u32>,
        is_observed: bool,
        limits: &mut PlaceLimits,
    ) -> Option<String> {
        let directive = &self.file.all[at];
        let Some(zone_use) = ZoneUse::read(directive) else {
            self.lose(at, "it needs zone=NAME, and numbers that are not too large");
            return None;
        };
        let zone =
            self.zones.get(&zone_use.zone).and_then(|zone| Some((zone.at, zone.key.clone(), zone.rate?)));
        let Some((zone_at, key, rate)) = zone else {
            self.lose(at, "its limit_req_zone is not in this file: import them together");
            return None;
        };
        let key = match self.variables.key(&key) {
            Ok(key) => key,
            Err(loss) => {
                self.report_key(zone_at, at, &loss);
                return None;
            }
        };
        limits.is_of_writes = Some(limits.is_of_writes.unwrap_or(true) && key.is_of_writes);
        self.see_zone(at, &zone_use.zone);
        let identity = LimitIdentity { zone: zone_use, in_flight, is_observed };
        if let Some(name) = self.limits.get(&identity) {
            return Some(name.clone());
        }
        let (old, rate, is_cut) = identity.zone.rules(rate);
        if is_cut {
            self.lose(at, "nginx held attempts for more than a minute; here they are refused");
        }
        if self.limits.keys().any(|other| other.zone.zone == identity.zone.zone) {
            self.lose(
                at,
                "nginx counted all uses of the zone together; each burst has separate buckets here",
            );
        }
        let name = self.limit_names.take(&identity.zone.zone, "limit");
        self.note_key(zone_at, &key);
        let line_of = |at: usize| SourceNote::new(self.file.all[at].line, self.file.all[at].text());
        self.out.limits.push(ImportedLimit {
            name: name.clone(),
            key: key.text(),
            rate,
            exempt: key.exempt,
            in_flight,
            counts_failures: false,
            is_observed,
            old,
            notes: vec![line_of(zone_at), line_of(at)],
        });
        self.limits.insert(identity, name.clone());
        Some(name)
    }

    fn report_key(&mut self, zone: usize, at: usize, loss: &KeyLoss) {
        self.lose(zone, loss.to_string());
        self.lose(at, "its zone is not carried over");
    }

    /// What else the key of a limit brings along.
    fn note_key(&mut self, zone: usize, key: &ZoneKey) {
        self.used_networks.extend(key.exempt.iter().cloned());
        if let Some(header) = key.client_header {
            self.out.header.get_or_insert_with(|| header.to_owned());
            self.lose(
                zone,
                format!("any client can send {header}: name the proxies that set it in client.trust"),
            );
        }
        if key.is_of_writes {
            self.out.lose(self.file.all[zone].line, "map of methods", "the routes count as POST does");
        }
        if key.text().contains("ip") {
            let why = "an IPv6 client is a /64 here; ipv6 = 128 counts single addresses as nginx does";
            self.out.lose(self.file.all[zone].line, "IPv6", why);
        }
    }

    fn read_status(&mut self, block: Option<usize>, line: usize) {
        let status = self.setting(block, "limit_req_status");
        let code = status.and_then(|directive| directive.words.first()?.parse::<u16>().ok());
        match (status, code) {
            (Some(_), Some(429)) => {}
            (Some(_), Some(code @ (403 | 503))) => self.out.refused_status = Some(code),
            (Some(directive), _) => {
                self.out.lose(directive.line, directive.text(), "refusals answer 429, with Retry-After");
            }
            (None, _) => {
                let why = "nginx answered 503; refusals answer 429, with Retry-After";
                self.out.lose(line, "limit_req without limit_req_status", why);
            }
        }
    }

    /// Drops the limits of places that no pattern stands for. If there is no other place, the limits stay, for a route that is
    /// written by hand.
    fn drop_unreached_limits(&mut self) {
        let Imported { limits, routes, .. } = &mut self.out;
        let is_reached = |name: &String| routes.iter().any(|route| route.limits.contains(name));
        if limits.iter().any(|limit| is_reached(&limit.name)) {
            limits.retain(|limit| is_reached(&limit.name));
        }
    }

    fn name_networks(&mut self) {
        let networks: Vec<(String, Vec<String>)> =
            self.variables.networks().map(|(name, prefixes)| (name, prefixes.to_vec())).collect();
        for (name, prefixes) in networks {
            if self.used_networks.contains(&name) {
                self.out.name_network(&name, prefixes);
            }
        }
    }

    /// Every directive that nothing above has read.
    fn report_the_rest(&mut self) {
        for (at, directive) in self.file.all.iter().enumerate() {
            let parent = directive.parent.map(|at| &*self.file.all[at].name);
            let is_entry = matches!(parent, Some("geo" | "map" | "types" | "upstream"));
            if self.seen[at] || is_entry || BLOCKS.contains(&&*directive.name) {
                continue;
            }
            let shown = match directive.name.as_str() {
                "include" | "limit_req" | "limit_conn" | "limit_req_zone" | "allow" | "deny" => {
                    directive.text()
                }
                name => name.chars().take(LONGEST_DIRECTIVE).collect(),
            };
            let why = match directive.name.as_str() {
                "limit_req_zone" | "limit_conn_zone" => "no place that is carried over uses it",
                name => reason(name),
            };
            self.out.lose(directive.line, shown, why);
        }
    }
}

/// Attempts at once that `in_flight` takes.
const MOST_PERMITS: u32 = 1_000_000;
/// Letters of a directive's name; nginx' own are shorter.
const LONGEST_DIRECTIVE: usize = 60;
