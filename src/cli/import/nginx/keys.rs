//! What the key of a zone charges: variables, and the `geo` and `map` blocks that make others of them.
//!
//! nginx does not limit a request whose key is empty. So a map to an empty key is an exemption, of networks or of methods.

use std::collections::HashMap;

use super::directives::Directives;
use crate::cli::import::imported::{plain_name, prefix};
use crate::config::values::LimitKey;

/// The key of a zone in words of tollgate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ZoneKey {
    /// As in `key`.
    pub(super) parts: Vec<&'static str>,
    /// Parts with names of headers or cookies.
    pub(super) named: Vec<String>,
    pub(super) exempt: Vec<String>,
    /// Whether requests that only read a page are free.
    pub(super) is_of_writes: bool,
    /// The header from which nginx took the client without asking who sent it.
    pub(super) client_header: Option<&'static str>,
}

impl ZoneKey {
    /// The value of `key`.
    pub(super) fn text(&self) -> String {
        let parts = self.parts.iter().map(|part| (*part).to_owned());
        parts.chain(self.named.iter().cloned()).collect::<Vec<_>>().join("+")
    }

    fn add(&mut self, other: Self) {
        let Self { parts, named, exempt, is_of_writes, client_header } = other;
        self.parts.extend(parts);
        self.named.extend(named);
        self.exempt.extend(exempt);
        self.is_of_writes |= is_of_writes;
        self.client_header = self.client_header.or(client_header);
        self.parts.sort_unstable();
        self.parts.dedup();
        self.exempt.sort();
        self.exempt.dedup();
    }
}

/// Why a key has no counterpart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyLoss {
    #[error("tollgate has no buckets by `{0}`")]
    Variable(String),
    #[error("`{0}` chooses keys by what tollgate has no exemptions for, or by values that are no keys")]
    Map(String),
    #[error(
        "`{0}` limits only some networks: write their rate into [limit.NAME.rates], and for others a large one"
    )]
    Inverse(String),
    #[error("a key without a variable: write key = \"all\"")]
    Constant,
}

/// A `geo` block.
#[derive(Debug, Default)]
struct GeoBlock {
    default: String,
    /// Prefixes by their value.
    prefixes: HashMap<String, Vec<String>>,
}

/// A `map` block.
#[derive(Debug)]
struct MapBlock {
    source: String,
    /// Values and their results; `default` is one of them.
    entries: Vec<(String, String)>,
}

/// All variables that the file makes.
#[derive(Debug, Default)]
pub(super) struct Variables {
    geos: HashMap<String, GeoBlock>,
    maps: HashMap<String, MapBlock>,
}

/// A line of a `geo` or `map` block that is not understood.
pub(super) struct UnreadEntry {
    /// Its number among the directives.
    pub(super) at: usize,
    pub(super) why: &'static str,
}

impl Variables {
    pub(super) fn read(file: &Directives) -> (Self, Vec<UnreadEntry>) {
        let (mut variables, mut unread) = (Self::default(), Vec::new());
        for (at, directive) in file.all.iter().enumerate() {
            let Some(name) = directive.words.last().and_then(|word| word.strip_prefix('$')) else { continue };
            match (&*directive.name, &directive.words[..]) {
                ("geo", [_] | [_, _]) => {
                    let block = GeoBlock::read(file, at, &mut unread);
                    variables.geos.insert(name.to_owned(), block);
                }
                ("map", [source, _]) => {
                    let entries = file.children(Some(at)).iter().map(|&at| &file.all[at]);
                    let entries =
                        entries.filter_map(|entry| Some((entry.name.clone(), entry.words.first()?.clone())));
                    let map = MapBlock { source: source.clone(), entries: entries.collect() };
                    variables.maps.insert(name.to_owned(), map);
                }
                _ => {}
            }
        }
        (variables, unread)
    }

    /// Networks by name: each `geo` block by its values.
    pub(super) fn networks(&self) -> impl Iterator<Item = (String, &[String])> {
        self.geos.iter().flat_map(|(name, geo)| {
            geo.prefixes.iter().map(move |(value, prefixes)| (network_name(name, value), &prefixes[..]))
        })
    }

    /// The key of a zone.
    pub(super) fn key(&self, text: &str) -> Result<ZoneKey, KeyLoss> {
        let key = self.key_within(text, 0)?;
        // What header or cookie names are not, `check` says as well.
        match key.text().parse::<LimitKey>() {
            Ok(_) => Ok(key),
            Err(_) => Err(KeyLoss::Variable(text.to_owned())),
        }
    }

    fn key_within(&self, text: &str, depth: usize) -> Result<ZoneKey, KeyLoss> {
        let mut key = ZoneKey::default();
        for name in names(text) {
            key.add(match self.maps.get(name) {
                Some(map) if depth < DEEPEST_MAP => self.mapped(name, map, depth + 1)?,
                _ => builtin(name).ok_or_else(|| KeyLoss::Variable(format!("${name}")))?,
            });
        }
        match key.text().is_empty() {
            true => Err(KeyLoss::Constant),
            false => Ok(key),
        }
    }

    /// The key of a map: the one result that is not empty, and who gets an empty one.
    fn mapped(&self, name: &str, map: &MapBlock, depth: usize) -> Result<ZoneKey, KeyLoss> {
        let lost = || KeyLoss::Map(format!("${name}"));
        let mut results: Vec<&str> = map.entries.iter().map(|(_, result)| &**result).collect();
        results.retain(|result| !result.is_empty());
        results.dedup();
        let [result] = results[..] else { return Err(lost()) };
        let mut key = self.key_within(result, depth)?;
        let free: Vec<&str> =
            map.entries.iter().filter(|(_, result)| result.is_empty()).map(|(value, _)| &**value).collect();
        // Without a default, what is not listed has an empty key.
        let is_default_free =
            free.contains(&"default") || !map.entries.iter().any(|(value, _)| value == "default");
        let limited =
            || map.entries.iter().filter(|(_, result)| !result.is_empty()).map(|(value, _)| &**value);
        match names(&map.source).next() {
            Some("request_method") => {
                key.is_of_writes = match is_default_free {
                    true if limited().all(|method| method != "GET" && method != "HEAD") => true,
                    false if free.contains(&"GET") => true,
                    _ => return Err(lost()),
                };
            }
            Some("remote_addr" | "binary_remote_addr" | "realip_remote_addr") => {
                let prefixes: Option<Vec<String>> = free.iter().map(|value| prefix(value)).collect();
                match prefixes {
                    Some(prefixes) if !is_default_free => key.exempt.extend(prefixes),
                    _ => return Err(lost()),
                }
            }
            Some(source) => match self.geos.get(source) {
                Some(geo) => {
                    key.exempt.extend(geo.exempt(source, &free, is_default_free, limited().collect())?)
                }
                None => return Err(lost()),
            },
            None => return Err(lost()),
        }
        Ok(key)
    }
}

impl GeoBlock {
    fn read(file: &Directives, block: usize, unread: &mut Vec<UnreadEntry>) -> Self {
        let mut geo = Self::default();
        for &at in file.children(Some(block)) {
            let entry = &file.all[at];
            let value = entry.words.first();
            match (&*entry.name, value) {
                ("default", Some(value)) => geo.default.clone_from(value),
                ("include", _) => unread.push(UnreadEntry { at, why: IN_A_FILE }),
                (text, Some(value)) => match prefix(text) {
                    Some(prefix) => geo.prefixes.entry(value.clone()).or_default().push(prefix),
                    None => unread.push(UnreadEntry { at, why: NO_PREFIX }),
                },
                (_, None) => unread.push(UnreadEntry { at, why: NO_PREFIX }),
            }
        }
        geo
    }

    /// The networks whose value leads to an empty key.
    fn exempt(
        &self,
        name: &str,
        free: &[&str],
        is_default_free: bool,
        limited: Vec<&str>,
    ) -> Result<Vec<String>, KeyLoss> {
        let is_free = |value: &str| free.contains(&value) || (is_default_free && !limited.contains(&value));
        if is_free(&self.default) {
            return Err(KeyLoss::Inverse(format!("${name}")));
        }
        let free = self.prefixes.keys().filter(|value| is_free(value));
        Ok(free.map(|value| network_name(name, value)).collect())
    }
}

/// One network for each value of a `geo` block.
fn network_name(geo: &str, value: &str) -> String {
    match value {
        "0" | "1" | "" => plain_name(geo, "clients"),
        _ => plain_name(&format!("{geo}-{value}"), "clients"),
    }
}

/// The names of the variables in a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('$').skip(1).map(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        &rest[..end.unwrap_or(rest.len())]
    })
}

fn builtin(name: &str) -> Option<ZoneKey> {
    let of = |part| Some(ZoneKey { parts: vec![part], ..ZoneKey::default() });
    let by_header =
        |header| Some(ZoneKey { parts: vec!["ip"], client_header: Some(header), ..ZoneKey::default() });
    match name {
        "binary_remote_addr" | "remote_addr" | "realip_remote_addr" | "proxy_protocol_addr" => of("ip"),
        "http_x_forwarded_for" | "proxy_add_x_forwarded_for" => by_header("X-Forwarded-For"),
        "http_x_real_ip" => by_header("X-Real-IP"),
        "http_cf_connecting_ip" => by_header("CF-Connecting-IP"),
        "http_true_client_ip" => by_header("True-Client-IP"),
        "server_name" | "host" | "http_host" => of("host"),
        "remote_user" => of("user"),
        _ => {
            let (kind, rest) = name.split_once('_')?;
            let part = match kind {
                "http" => format!("header:{}", rest.replace('_', "-")),
                "cookie" => format!("cookie:{rest}"),
                _ => return None,
            };
            Some(ZoneKey { named: vec![part], ..ZoneKey::default() })
        }
    }
}

/// Maps of maps.
const DEEPEST_MAP: usize = 8;
const IN_A_FILE: &str = "networks in a file: name it in [networks] as \"@FILE\", with one prefix a line";
const NO_PREFIX: &str = "not an address or a prefix";

#[cfg(test)]
mod tests {
    use super::*;

    fn key(file: &str, text: &str) -> Result<(String, Vec<String>, bool), KeyLoss> {
        let (variables, _) = Variables::read(&Directives::parse(file));
        variables.key(text).map(|key| (key.text(), key.exempt, key.is_of_writes))
    }

    #[test]
    fn variables_become_parts_of_a_key() {
        let plain = |text| key("", text).map(|(key, ..)| key);
        assert_eq!(plain("$binary_remote_addr").as_deref(), Ok("ip"));
        assert_eq!(plain("$host$binary_remote_addr").as_deref(), Ok("host+ip"));
        assert_eq!(plain("${http_x_api_key}").as_deref(), Ok("header:x-api-key"));
        assert_eq!(plain("$request_uri"), Err(KeyLoss::Variable("$request_uri".to_owned())));
        assert_eq!(plain("all"), Err(KeyLoss::Constant));
    }

    #[test]
    fn a_network_with_an_empty_key_is_exempt() {
        let geo = "geo $limited { default 1; 10.0.0.0/8 0; 192.0.2.7 0; }";
        let map = "map $limited $limit_key { 0 ''; 1 $binary_remote_addr; }";
        let expected = ("ip".to_owned(), vec!["limited".to_owned()], false);
        assert_eq!(key(&format!("{geo}{map}"), "$limit_key"), Ok(expected));
    }

    #[test]
    fn a_map_that_limits_listed_networks_only_is_not_carried_over() {
        let geo = "geo $bad { default 0; 10.0.0.0/8 1; }";
        let map = "map $bad $limit_key { 0 ''; 1 $binary_remote_addr; }";
        assert_eq!(key(&format!("{geo}{map}"), "$limit_key"), Err(KeyLoss::Inverse("$bad".to_owned())));
    }

    #[test]
    fn a_map_of_methods_frees_those_who_read() {
        for entries in ["default ''; POST $binary_remote_addr;", "default $binary_remote_addr; GET '';"] {
            let map = format!("map $request_method $posts {{ {entries} }}");
            assert_eq!(key(&map, "$posts"), Ok(("ip".to_owned(), Vec::new(), true)), "{entries}");
        }
    }

    #[test]
    fn a_map_of_itself_ends() {
        assert!(key("map $a $a { default $a; 1 ''; }", "$a").is_err());
    }
}
