//! What names a person in lines that the gate wrote, and a line without it.
//!
//! Fields of the gate's own become what they are for a client without an address and an attempt without an account, so that a
//! line stays one of its schema. In the text of clients (targets, `Referer`, `User-Agent`) an address is found anywhere, a name as
//! a value of a query, and as a part of a path if it has a digit or an `@`: other parts of paths are mostly words. Nothing else of a
//! line changes.

use std::net::IpAddr;

use memchr::memmem::Finder;
use percent_encoding::percent_decode;

use super::client_format::ClientFormatter;
use crate::event::BucketOwner;
use crate::policy::account::Account;
use crate::policy::attempt::Client;
use crate::policy::person::Person;

/// The person of an operator's command, as lines name them; its `Debug` form hides it.
pub struct Traces {
    addresses: Vec<IpAddr>,
    accounts: Vec<Account>,
    /// The hashes of the accounts.
    hashes: Vec<u64>,
    /// Clients and accounts, as the gate writes them.
    parties: Vec<String>,
    /// Fields of the gate's own, and what stands for them afterwards.
    fields: Vec<(Finder<'static>, &'static [u8])>,
}

impl Traces {
    /// The traces of a person with these owners, in the forms that `clients` writes.
    #[must_use]
    pub fn of(person: &Person, owners: &[BucketOwner], clients: &ClientFormatter) -> Self {
        let (addresses, accounts) = (person.addresses().to_vec(), person.accounts().to_vec());
        let (hashes, parties, fields) = Default::default();
        let mut traces = Self { addresses, accounts, hashes, parties, fields };
        for owner in owners {
            match *owner {
                BucketOwner::Client(client) => traces.add_client(client, clients),
                BucketOwner::Account(hash) => {
                    traces.hashes.push(hash);
                    traces.add_account(&format!("{hash:012x}"));
                }
                BucketOwner::Key(_) => {}
            }
        }
        traces
    }

    /// The person's addresses.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// The hashes of the person's accounts.
    #[must_use]
    pub fn account_hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Whether it has no address.
    #[must_use]
    pub fn is_of_accounts_only(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Whether this is one of the person's addresses or accounts, as messages write them.
    #[must_use]
    pub fn is_party(&self, party: &str) -> bool {
        self.parties.iter().any(|known| known == party)
    }

    /// Whether a line of the audit log is about the person: it names accounts as `user:#HASH`.
    #[must_use]
    pub fn are_in_audit(&self, line: &[u8]) -> bool {
        if memchr::memmem::find(line, b"\"what\":\"forget\"").is_some() {
            return false;
        }
        let is_party =
            |party: &String| party.starts_with('#') && memchr::memmem::find(line, party.as_bytes()).is_some();
        self.without_addresses(line).is_some() || self.parties.iter().any(is_party)
    }

    /// Whether a word of this text, or several, are one of the names or addresses.
    #[must_use]
    pub fn are_in_words_of(&self, text: &str) -> bool {
        let is_end = |letter: char| {
            letter.is_whitespace() || matches!(letter, ',' | ';' | '(' | ')' | '"' | '\'' | '<' | '>')
        };
        let words: Vec<&str> = text.split(is_end).filter(|word| !word.is_empty()).collect();
        let are_a_name = |words: &[&str]| {
            let name = words.join(" ");
            let name = name.trim_start_matches("user:").trim_end_matches(['.', ':', '!', '?']);
            self.accounts.contains(&Account::fold(name.as_bytes()))
        };
        (1..=words.len()).any(|length| words.windows(length).any(are_a_name))
            || self.without_addresses(text.as_bytes()).is_some()
    }

    /// The line without the person; `None` if it does not name them.
    #[must_use]
    pub fn cleaned(&self, line: &[u8]) -> Option<Vec<u8>> {
        let mut cleaned: Option<Vec<u8>> = None;
        for (field, instead) in &self.fields {
            let text = cleaned.as_deref().unwrap_or(line);
            if let Some(replaced) = replace(text, field, instead) {
                cleaned = Some(replaced);
            }
        }
        // Only the combined format begins with the client.
        let text = cleaned.as_deref().unwrap_or(line);
        let of_client = |party: &&String| text.strip_prefix(party.as_bytes()).is_some_and(is_combined);
        if let Some(party) = self.parties.iter().find(of_client) {
            cleaned = Some([b"-", &text[party.len()..]].concat());
        }
        for pass in [Self::without_addresses, Self::without_names] {
            if let Some(replaced) = pass(self, cleaned.as_deref().unwrap_or(line)) {
                cleaned = Some(replaced);
            }
        }
        cleaned
    }

    fn add_client(&mut self, client: Client, clients: &ClientFormatter) {
        let whole = client.ip().map(|ip| ip.to_string());
        let mut forms: Vec<String> = whole.into_iter().chain(clients.names_alone(client)).collect();
        forms.dedup();
        for text in forms {
            self.add_field(&format!("\"client\":\"{text}\""), b"\"client\":\"-\"");
            for name in [
                "\"src_endpoint\":{\"ip\"",
                "\"src_endpoint\":{\"uid\"",
                "\"source\":{\"ip\"",
                "\"source\":{\"address\"",
            ] {
                self.add_field(&format!(",{name}:\"{text}\"}}"), b"");
            }
            self.parties.push(text);
        }
    }

    fn add_account(&mut self, hash: &str) {
        self.add_field(&format!("\"account\":\"{hash}\""), b"\"account\":null");
        self.add_field(&format!("\"user\":{{\"uid\":\"{hash}\"}}"), b"\"user\":{\"name\":\"Unknown\"}");
        self.add_field(&format!(",\"user\":{{\"hash\":\"{hash}\"}}"), b"");
        self.parties.push(format!("#{hash}"));
    }

    fn add_field(&mut self, text: &str, instead: &'static [u8]) {
        self.fields.push((Finder::new(text).into_owned(), instead));
    }

    fn without_addresses(&self, line: &[u8]) -> Option<Vec<u8>> {
        if self.addresses.is_empty() {
            return None;
        }
        let may_be = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':');
        let mut found = Vec::new();
        let mut at = 0;
        for run in line.chunk_by(|a, b| may_be(a) == may_be(b)) {
            if run.len() >= SHORTEST_ADDRESS && may_be(&run[0]) {
                found.extend(self.address_in(run).map(|(start, end)| (at + start, at + end)));
            }
            at += run.len();
        }
        without(line, &found)
    }

    /// Where one of the addresses is in letters that may be one: alone, before a port, or before the end of a sentence.
    fn address_in(&self, run: &[u8]) -> Option<(usize, usize)> {
        let text = std::str::from_utf8(run).ok()?;
        let is_theirs = |text: &str| {
            text.parse::<IpAddr>().is_ok_and(|address| self.addresses.contains(&address.to_canonical()))
        };
        let forms = |start: usize| {
            let rest = text.get(start..).unwrap_or_default();
            let before_port = rest.split(':').next().unwrap_or_default();
            [rest, rest.trim_end_matches(['.', ':']), before_port].map(|part| (start, part))
        };
        let after_colon = usize::from(text.starts_with(':'));
        let mut all = forms(0).into_iter().chain(forms(after_colon));
        all.find(|(_, part)| is_theirs(part)).map(|(start, part)| (start, start + part.len()))
    }

    fn without_names(&self, line: &[u8]) -> Option<Vec<u8>> {
        without(line, &self.names_in(line, true))
    }

    /// Where words are that name the person; `nests`: also as a value within an encoded value, once.
    fn names_in(&self, line: &[u8], nests: bool) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let mut at = 0_usize;
        for run in line.chunk_by(|a, b| !ends_a_word(*a) && !ends_a_word(*b)) {
            let before = at.checked_sub(1).map_or(0, |before| line[before]);
            if !ends_a_word(run[0]) && self.is_named_by(run, before, nests) {
                found.push((at, at + run.len()));
            }
            at += run.len();
        }
        found
    }

    /// Whether this word is one of the names or addresses, by what is before it.
    fn is_named_by(&self, word: &[u8], before: u8, nests: bool) -> bool {
        let is_value = before == b'=';
        let is_telling = |byte: &u8| byte.is_ascii_digit() || *byte == b'@';
        if !is_value && before != b'/' {
            return false;
        }
        let decoded = decode(word, is_value);
        let address = std::str::from_utf8(&decoded).ok().and_then(|text| text.parse::<IpAddr>().ok());
        if address.is_some_and(|address| self.addresses.contains(&address.to_canonical())) {
            return true;
        }
        if !is_value && !decoded.iter().any(is_telling) {
            return false;
        }
        let is_theirs = |name: &[u8]| self.accounts.contains(&Account::fold(name));
        if !self.accounts.is_empty() && (is_theirs(&decoded) || is_value && is_theirs(&decode(word, false))) {
            return true;
        }
        // As where to go after the sign-in, with its own query.
        nests && is_value && decoded.len() < word.len() && !self.names_in(&decoded, false).is_empty()
    }
}

impl std::fmt::Debug for Traces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Traces(hidden)")
    }
}

/// Whether this follows the client in a line of the combined format.
fn is_combined(rest: &[u8]) -> bool {
    rest.starts_with(b" - - [")
}

fn replace(text: &[u8], field: &Finder<'_>, instead: &[u8]) -> Option<Vec<u8>> {
    let found: Vec<usize> = field.find_iter(text).collect();
    if found.is_empty() {
        return None;
    }
    let (mut replaced, mut rest) = (Vec::with_capacity(text.len()), 0);
    for at in found {
        replaced.extend_from_slice(&text[rest..at]);
        replaced.extend_from_slice(instead);
        rest = at + field.needle().len();
    }
    replaced.extend_from_slice(&text[rest..]);
    Some(replaced)
}

/// The text with `-` in these places, which are in order.
fn without(text: &[u8], places: &[(usize, usize)]) -> Option<Vec<u8>> {
    let (mut replaced, mut rest) = (Vec::with_capacity(text.len()), 0);
    for &(start, end) in places {
        replaced.extend_from_slice(&text[rest..start]);
        replaced.push(b'-');
        rest = end;
    }
    replaced.extend_from_slice(&text[rest..]);
    (!places.is_empty()).then_some(replaced)
}

/// What ends a value of a query or a part of a path, also in a header and in JSON.
fn ends_a_word(byte: u8) -> bool {
    matches!(byte, b'=' | b'&' | b';' | b'?' | b'#' | b'/' | b'"' | b' ' | b',' | b'(' | b')' | b'\n')
}

/// A text without the escapes of URLs, of the combined format and of JSON; in a form `+` is a blank.
fn decode(word: &[u8], is_of_form: bool) -> Vec<u8> {
    let blank = |&byte: &u8| if byte == b'+' && is_of_form { b' ' } else { byte };
    let plain: Vec<u8> = word.iter().map(blank).collect();
    let mut decoded = Vec::with_capacity(plain.len());
    let mut rest = plain.as_slice();
    while let Some((&first, after)) = rest.split_first() {
        let (bytes, after) = unescaped(rest).unwrap_or_else(|| (vec![first], after));
        decoded.extend_from_slice(&bytes);
        rest = after;
    }
    percent_decode(&decoded).collect()
}

/// What an escape at the beginning stands for, and the text behind it.
fn unescaped(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    match text {
        [b'\\', b'\\', after @ ..] => return Some((vec![b'\\'], after)),
        [b'\\', b'x', high, low, after @ ..] => return Some((vec![byte_of(*high, *low)?], after)),
        _ => {}
    }
    let (unit, after) = unit_of(text)?;
    if let Some(letter) = char::from_u32(unit.into()) {
        return Some((letter.to_string().into_bytes(), after));
    }
    // A letter that takes two of them.
    let (second, after) = unit_of(after)?;
    let letter = char::decode_utf16([unit, second]).next()?.ok()?;
    Some((letter.to_string().into_bytes(), after))
}

fn unit_of(text: &[u8]) -> Option<(u16, &[u8])> {
    let [b'\\', b'u', a, b, c, d, after @ ..] = text else { return None };
    Some((u16::from_be_bytes([byte_of(*a, *b)?, byte_of(*c, *d)?]), after))
}

fn byte_of(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// `::1`
const SHORTEST_ADDRESS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::settings::ClientsShown;
    use crate::policy::Policy;
    use crate::policy::key::PrefixLengths;

    /// Of Zoë Planck, whose account has the hash 123456789abc, with these addresses.
    fn traces() -> Traces {
        let clients = ClientFormatter::new(ClientsShown::Full, PrefixLengths::default());
        let words = ["user:zoe4711@example.org", "user:planck", "ip:203.0.113.9", "ip:2001:db8::9"];
        let person = Policy::new(vec![], vec![]).person(words).unwrap();
        let addresses = person.addresses().iter().map(|ip| BucketOwner::Client(Client::from_ip(*ip)));
        let owners: Vec<_> = addresses.chain([BucketOwner::Account(0x1234_5678_9abc)]).collect();
        Traces::of(&person, &owners, &clients)
    }

    fn cleaned(line: &str) -> Option<String> {
        traces().cleaned(line.as_bytes()).map(|line| String::from_utf8(line).unwrap())
    }

    #[test]
    fn a_reason_names_a_person_by_one_word_or_by_several() {
        let clients = ClientFormatter::new(ClientsShown::Full, PrefixLengths::default());
        let person = Policy::new(vec![], vec![]).person(["user:Zoë Planck", "user:zoe@example.org"]).unwrap();
        let traces = Traces::of(&person, &[], &clients);
        for why in [
            "Zoë Planck asked",
            "ticket 7 (zoë  planck)",
            "mail of <zoe@example.org>",
            "user:zoe@example.org.",
        ] {
            assert!(traces.are_in_words_of(why), "{why}");
        }
        assert!(!traces.are_in_words_of("ticket 7 of Zoë, who asked Planck"));
    }

    #[test]
    fn a_line_of_each_schema_loses_the_person_and_nothing_else() {
        for (line, left) in [
            (
                r#"{"route":"login","client":"203.0.113.9","account":"123456789abc","left":0}"#,
                r#"{"route":"login","client":"-","account":null,"left":0}"#,
            ),
            (
                r#"{"a":1,"src_endpoint":{"ip":"2001:db8::9"},"user":{"uid":"123456789abc"},"b":2}"#,
                r#"{"a":1,"user":{"name":"Unknown"},"b":2}"#,
            ),
            (
                r#"{"a":1,"source":{"ip":"203.0.113.9"},"user":{"hash":"123456789abc"},"b":2}"#,
                r#"{"a":1,"b":2}"#,
            ),
            (
                r#"{"a":1,"source":{"ip":"2001:db8::9"},"b":{"verdict":"refuse"}}"#,
                r#"{"a":1,"b":{"verdict":"refuse"}}"#,
            ),
            (
                r#"203.0.113.9 - - [x] "GET /?u=PLANCK&v=1 HTTP/1.1" 200 5 "http://a/?mail=zoe4711%40example.org" "curl/8""#,
                r#"- - - [x] "GET /?u=-&v=1 HTTP/1.1" 200 5 "http://a/?mail=-" "curl/8""#,
            ),
            (
                r#"198.51.100.7 - - [x] "GET /users/Zoe4711@example.org/edit HTTP/1.1" 200 5 "-" "via 203.0.113.9:8080""#,
                r#"198.51.100.7 - - [x] "GET /users/-/edit HTTP/1.1" 200 5 "-" "via -:8080""#,
            ),
            ("seen from 2001:DB8:0:0::9.", "seen from -."),
            ("GET /?ip=2001%3Adb8%3A%3A9 HTTP/1.1", "GET /?ip=- HTTP/1.1"),
            ("GET /?to=https%3A%2F%2Fa%2F%3Fu%3Dplanck%26v%3D1&x=1 HTTP/1.1", "GET /?to=-&x=1 HTTP/1.1"),
            ("peer:203.0.113.9", "peer:-"),
        ] {
            assert_eq!(cleaned(line).as_deref(), Some(left), "{line}");
        }
    }

    #[test]
    fn a_line_of_others_stays() {
        for line in [
            r#"{"client":"203.0.113.90","account":"123456789abd"}"#,
            r#"{"client":"1203.0.113.9"}"#,
            r#"203.0.113.99 - - [x] "GET /planck/?q=plancks HTTP/1.1" 200 5 "-" "planck""#,
            r#"{"client":"2001:db8::9:1","user_agent":"x\",\"account\":\"123456789abc"}"#,
            "",
        ] {
            assert_eq!(cleaned(line), None, "{line}");
        }
    }

    #[test]
    fn a_name_is_found_in_every_spelling_that_logs_write() {
        let clients = ClientFormatter::new(ClientsShown::Full, PrefixLengths::default());
        let person = Policy::new(vec![], vec![]).person(["user:Zoë Planck"]).unwrap();
        let traces = Traces::of(&person, &[], &clients);
        for name in ["zo%C3%AB+planck", "ZO%C3%8B%20Planck", r"zo\xC3\xAB+planck", r"zo\u00EB+planck"] {
            let line = format!("GET /?log={name}&x=1");
            assert_eq!(traces.cleaned(line.as_bytes()).as_deref(), Some(&b"GET /?log=-&x=1"[..]), "{name}");
        }
    }

    #[test]
    fn escapes_of_json_are_read_from_left_to_right() {
        for (word, text) in [
            (r"CORP\\alice", r"CORP\alice"),
            (r"CORP\x5Calice", r"CORP\alice"),
            (r"\\u0041", r"\u0041"),
            (r"\u0041\uD83D\uDE00!", "A😀!"),
            (r"\uD83D!", r"\uD83D!"),
        ] {
            assert_eq!(decode(word.as_bytes(), false), text.as_bytes(), "{word}");
        }
    }
}
