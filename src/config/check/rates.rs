//! `[limit.NAME.rates]`: other rates for some clients, in the shape of the limit.
//!
//! The form of a key says what it is: `user:NAME` and `@users.txt` are accounts, `header:NAME=VALUE` a credential,
//! `signed:NAME` a monitor, `cert:NAME` a certificate, a [fact](RATED_FACTS) and its value the addresses of which it is known, and everything else networks. No message and no class repeats a credential.

use std::collections::HashMap;

use http::{HeaderName, HeaderValue};
use ipnet::IpNet;
use tollgate_grammar::diagnostic::suggest;
use tollgate_grammar::kind::{Given, Like};
use tollgate_grammar::table::SecretText;
use tollgate_grammar::{Findings, Located, RawNamed, Spot, Syntax as _, name};

use super::super::values::{LimitKey, RateOrOff, RateValue};
use super::account_lists::listed_accounts;
use super::buckets::of_rate;
use super::context::CheckContext;
use super::rate_parts::{Extras, GivenRate};
use super::secret;
use super::shapes::BucketShape;
use crate::defences::{self, RATED_FACTS};
use crate::policy::Rates;
use crate::policy::account::Account;
use crate::policy::fingerprint::Fingerprint;
use crate::policy::key::KeyPart;

/// The rates of one limit. Without a shape, after a mistake in it, only their grammar is checked.
pub(super) fn check(
    raw: &[RawNamed<Given<Like<RateOrOff>>>],
    key: Option<&LimitKey>,
    shape: Option<&BucketShape>,
    extras: &Extras,
    cx: &mut CheckContext<'_>,
    f: &mut Findings,
) -> Rates {
    let mut found = RatesCheck { rates: Rates::default(), seen: HashMap::new(), lists: Vec::new(), cx };
    for RawNamed { name, value: text } in raw {
        let rate = if text.value == "off" { None } else { RateValue::read(text, f) };
        let spec = rate.and_then(|rate| of_rate(shape?, GivenRate { rate, text }, extras, f));
        let selector = Selector::of(&name.value);
        let class = found.rates.add(&found.class_name(&selector, name), spec);
        let is_of_users = matches!(selector, Selector::User(_) | Selector::UserList(_));
        if is_of_users {
            refuse_users_elsewhere(name, key, f);
        }
        // Anyone who sees a signature can send it again, from anywhere and with another account.
        let is_replayed = matches!(selector, Selector::Monitor(_));
        if text.value == "off" && (is_of_users || is_replayed) {
            let message = "this limit bounds no guesses at what is named here";
            f.warning(&text.spot, message, "a high rate is a bound, as in \"600/min\"");
        }
        found.add(selector, name, class, f);
    }
    found.add_lists(f);
    found.rates
}

/// What a key of the table selects clients by.
#[derive(Clone, Copy)]
enum Selector<'t> {
    /// The name of an account.
    User(&'t str),
    /// The path of a file with names of accounts.
    UserList(&'t str),
    /// The name of a header and its value.
    Credential(&'t str),
    /// The name of a monitor.
    Monitor(&'t str),
    /// The name in a certificate.
    Certificate(&'t str),
    /// What an address tells.
    Fact(&'t str),
    /// A kind that there is not.
    Unknown(&'t str),
    /// A prefix, or the name of networks.
    Network,
}

impl<'t> Selector<'t> {
    fn of(text: &'t str) -> Self {
        if let Some(path) = text.strip_prefix('@') {
            return Self::UserList(path);
        }
        match text.split_once(':') {
            Some(("user", name)) => Self::User(name),
            Some(("header", pair)) => Self::Credential(pair),
            Some(("signed", name)) => Self::Monitor(name),
            Some(("cert", name)) => Self::Certificate(name),
            Some((kind, _)) if RATED_FACTS.contains(&kind) => Self::Fact(text),
            // An IPv6 address begins with hexadecimal digits.
            Some((kind, _)) if kind.contains(|c: char| c.is_ascii_alphabetic() && !c.is_ascii_hexdigit()) => {
                Self::Unknown(kind)
            }
            _ if text.contains('=') => Self::Unknown(""),
            _ => Self::Network,
        }
    }
}

/// The rates of a limit while they are read.
struct RatesCheck<'r, 'c> {
    rates: Rates,
    seen: HashMap<IpNet, &'r str>,
    /// Files of accounts and their classes: what is named in the file itself comes first.
    lists: Vec<(&'r str, &'r Spot, usize)>,
    cx: &'r mut CheckContext<'c>,
}

impl<'r> RatesCheck<'r, '_> {
    /// The name of a class: what is written, without a credential.
    fn class_name(&self, selector: &Selector<'_>, name: &Located<String>) -> String {
        match selector {
            Selector::Credential(pair) => match pair.split_once('=') {
                Some((header, value)) if !value.starts_with("${") => {
                    format!("header:{header}#{}", self.rates.classes().len() + 1)
                }
                _ => name.value.clone(),
            },
            _ => name.value.clone(),
        }
    }

    fn add(&mut self, selector: Selector<'r>, name: &'r Located<String>, class: usize, f: &mut Findings) {
        match selector {
            Selector::User(user) => self.add_user(user, &name.spot, class, f),
            Selector::UserList(path) => self.lists.push((path, &name.spot, class)),
            Selector::Credential(pair) => self.add_credential(pair, &name.spot, class, f),
            Selector::Monitor(monitor) => self.add_monitor(monitor, &name.spot, class, f),
            Selector::Certificate(subject) => self.add_certificate(subject, &name.spot, class, f),
            Selector::Fact(fact) => {
                let add = |fact| self.rates.insert_fact(fact, class);
                defences::add_rate(&self.cx.raw.lookups, fact, &name.spot, add, f);
            }
            Selector::Unknown(kind) => {
                let what = if kind.is_empty() { "this".to_owned() } else { format!("`{kind}:`") };
                f.error(
                    &name.spot,
                    format!("{what} selects no clients"),
                    suggest(kind, KINDS.into_iter().chain(RATED_FACTS)),
                );
            }
            Selector::Network => self.add_network(name, class, f),
        }
    }

    fn add_user(&mut self, user: &str, spot: &Spot, class: usize, f: &mut Findings) {
        let account = Account::fold(user.as_bytes());
        if account.as_bytes().is_empty() {
            f.error(spot, "a rate for an account without a name", "as in \"user:backup\"");
        } else if !self.rates.insert_user(Fingerprint::of_account(&account), class) {
            f.error(
                spot,
                "this account has a rate already",
                "case, accents and blanks make no other account",
            );
        }
    }

    fn add_credential(&mut self, pair: &str, spot: &Spot, class: usize, f: &mut Findings) {
        let header = pair.split_once('=').and_then(|(name, value)| Some((name.parse().ok()?, value)));
        let Some((header, value)): Option<(HeaderName, &str)> = header else {
            f.error(spot, "this is not NAME=VALUE of a header", CREDENTIAL);
            return;
        };
        let text = Located { value: SecretText(value.to_owned()), spot: spot.clone() };
        let Some((value, whence)) = secret::resolve(&text, &mut self.cx.files, f) else { return };
        let value = value.trim();
        if value.is_empty() || HeaderValue::from_str(value).is_err() {
            f.error(spot, format!("{whence} is not a valid value of a header"), CREDENTIAL);
        } else if !self.rates.insert_credential(header, Fingerprint::of(value.as_bytes()), class) {
            f.error(spot, format!("{whence} has a rate already"), "");
        } else if value.len() < GOOD_CREDENTIAL {
            let hint = format!("{GOOD_CREDENTIAL} random bytes or more: guesses at it are not counted");
            f.warning(spot, format!("{whence} is short"), hint);
        }
    }

    fn add_monitor(&mut self, monitor: &str, spot: &Spot, class: usize, f: &mut Findings) {
        let name = Located { value: monitor.to_owned(), spot: spot.clone() };
        // TOML has each key once.
        if name::index_of(&name, "monitor", &self.cx.raw.monitors, f).is_some() {
            self.rates.insert_monitor(monitor, class);
        }
    }

    fn add_certificate(&mut self, subject: &str, spot: &Spot, class: usize, f: &mut Findings) {
        if subject.is_empty() {
            f.error(
                spot,
                "a rate for a certificate without a name",
                "its common name, as in \"cert:backup\"",
            );
        } else if !self.rates.insert_certificate(subject, class) {
            f.error(spot, "this certificate has a rate already", "");
        }
    }

    fn add_network(&mut self, name: &'r Located<String>, class: usize, f: &mut Findings) {
        for net in self.cx.networks.resolve(name, f) {
            let earlier = self.seen.insert(net, &name.value);
            if let Some(earlier) = earlier.filter(|earlier| *earlier != name.value) {
                f.error(&name.spot, format!("{net} has a rate already"), format!("as part of `{earlier}`"));
            }
            self.rates.insert_network(net, class);
        }
    }

    fn add_lists(&mut self, f: &mut Findings) {
        for (path, spot, class) in std::mem::take(&mut self.lists) {
            for account in listed_accounts(path, spot, &mut self.cx.files, f) {
                self.rates.insert_user(account, class);
            }
        }
    }
}

/// A client writes any name, so a rate by it may only change what is charged to that name.
fn refuse_users_elsewhere(name: &Located<String>, key: Option<&LimitKey>, f: &mut Findings) {
    if key.is_some_and(|LimitKey(parts)| !parts.contains(&KeyPart::User)) {
        let message = "a rate for accounts on a limit whose `key` has no \"user\"";
        f.error(&name.spot, message, "any client could take it by writing that name; as in key = \"user\"");
    }
}

const KINDS: [&str; 4] = ["user", "header", "signed", "cert"];
const CREDENTIAL: &str = "as in \"header:X-Api-Key=${file:partner.key}\"";
/// Bytes from which on a random text cannot be guessed, even one of letters.
const GOOD_CREDENTIAL: usize = 16;
