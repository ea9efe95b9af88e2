//! A limit in words: what it admits in the worst case, alone and with the other limits of a route.
//!
//! `check` prints it, so that the author of `10 per 5m` sees what it means for a day of guessing. A bucket that refills
//! once a period, and a window of whole periods, admit twice as much around a border; the text says so.

mod combined;
mod describe;
mod upper_bound;

pub use combined::{CombinedBound, CombinedLimits, combined};
pub use upper_bound::upper_bound;

use std::collections::BTreeMap;

use tollgate_grammar::diagnostic::grouped;

use crate::bucket::Spec;
use crate::defences::prefixes::describe_prefix;
use crate::defences::{self, OWNERS};
use crate::policy::key::{KeyPart, PrefixLengths};
use crate::policy::{ByteLimit, ChargeOn, Limit, LimitKind, Policy, Unit};

/// The [`worst_case`] of each limit of the file, with its name. A limit with sub-limits counts once.
#[must_use]
pub fn worst_cases(policy: &Policy) -> Vec<(&str, String)> {
    let limits = policy.limits.chunk_by(|one, next| one.name == next.name);
    let words = limits.filter_map(|group| {
        let (first, others) = group.split_first()?;
        let notes = others.iter().filter_map(describe_kind).map(|note| format!("; {note}"));
        let pardon = policy.pardon.as_ref().filter(|pardon| pardon.lifts(first));
        let pardon = pardon.map(|pardon| format!("; {}: {}", pardon.describe(), for_some(pardon.rate())));
        let words = notes.chain(pardon).fold(worst_case(first), |words, note| words + &note);
        // A directory counts those of known addresses together with all others.
        let is_each = first.is_account() && first.directory.is_none();
        let memory = policy.owner_memory.as_ref().filter(|_| is_each);
        let remembered = memory.map_or_else(String::new, |memory| memory.describe());
        Some((&*first.name, words + &remembered))
    });
    let of_bytes = policy.byte_limits().iter().map(|limit| (&*limit.limit().name, of_bytes(&**limit)));
    words.chain(of_bytes).collect()
}

/// As in `export: at most 50MB at once, then 10MB a second from one address; answers wait, nothing is refused`.
fn of_bytes(limit: &dyn ByteLimit) -> String {
    let Limit { name, key, prefixes, exempt, .. } = limit.limit();
    let clients: Vec<String> = key.iter().map(|part| describe_part(part, *prefixes)).collect();
    let exempt = if exempt.is_empty() { "" } else { "; exempt clients: no limit" };
    let role = limit.limit().describe_role();
    let held = if role.is_empty() { OF_BYTES } else { "" };
    format!(
        "{name}: {} {}{exempt}{held}{role}; each gate counts for itself",
        limit.describe(),
        clients.join(" ")
    )
}

/// What a sub-limit adds to the rate.
fn describe_kind(limit: &Limit) -> Option<String> {
    match limit.kind {
        LimitKind::Rate => None,
        LimitKind::Cap => {
            let (failures, owner) = (grouped(limit.spec.burst().into()), OWNERS.key);
            Some(format!(
                "after {failures} failures in a row a stranger needs a known {owner} or an operator"
            ))
        }
        LimitKind::Directory => {
            Some(format!("known {} and strangers together: {}", OWNERS.several, for_some(limit.spec)))
        }
        LimitKind::Escalation => defences::worst_case(limit),
    }
}

/// As in `address: at most 10 at once, then 2,880 a day from one address`, and the exceptions for some clients.
#[must_use]
pub fn worst_case(limit: &Limit) -> String {
    let clients: Vec<String> = limit.key.iter().map(|part| describe_part(part, limit.prefixes)).collect();
    let (head, notes) = describe::describe(limit.spec);
    let mut text = format!("{}: {head} {}", limit.name, clients.join(" "));
    for note in notes.into_iter().chain(describe::extras(limit.spec)) {
        text.push_str(&format!("; {note}"));
    }
    text.push_str(match limit.unit {
        Unit::Attempts => "",
        Unit::Users => "; accounts are counted, not attempts: one of the last 16 costs nothing",
        Unit::Passwords => {
            "; passwords are counted, not attempts: one of the last 16 costs nothing, \
             200 times until the bucket is full"
        }
        Unit::Clients => {
            "; addresses are counted, not attempts: one of the last 16 costs nothing, however often it tries"
        }
    });
    if limit.is_account() {
        text.push_str(OF_ACCOUNTS);
    }
    if limit.is_of_passwords() {
        text.push_str(OF_PASSWORDS);
    }
    let rates: BTreeMap<&str, Option<Spec>> =
        limit.rates.classes().iter().map(|rate| (&*rate.class, rate.spec)).collect();
    for (class, spec) in rates {
        text.push_str(&format!("; `{class}`: {}", spec.map_or_else(|| "no limit".to_owned(), for_some)));
    }
    if !limit.exempt.is_empty() {
        text.push_str("; exempt clients: no limit");
    }
    if limit.charge_on == ChargeOn::Failures {
        text.push_str("; only failures count");
    }
    if let Some(permits) = &limit.permits {
        text.push_str(&format!("; {}", permits.describe()));
    }
    if limit.is_reset_by_success {
        text.push_str("; a success fills the bucket");
    }
    text + &limit.describe_role()
}

fn for_some(spec: Spec) -> String {
    match describe::describe(spec) {
        (head, notes) if notes.is_empty() => head,
        (head, notes) => format!("{head} ({})", notes.join("; ")),
    }
}

fn describe_part(part: &KeyPart, lengths: PrefixLengths) -> String {
    match part {
        KeyPart::Ip => format!("from {}", describe_prefix(lengths)),
        KeyPart::Fact(fact) => {
            let words = fact.words();
            format!("{} ({}: {})", words.whose, words.without, describe_prefix(lengths))
        }
        KeyPart::Password => format!("with one password (without one: {})", describe_prefix(lengths)),
        KeyPart::Host => "to one host".to_owned(),
        KeyPart::All => "from all clients together".to_owned(),
        KeyPart::User => "for one account".to_owned(),
        KeyPart::Owner => format!("from one known {}", OWNERS.key),
        KeyPart::Header(name) => format!("for one value of header `{name}`"),
        KeyPart::Cookie(name) => format!("for one value of cookie `{name}`"),
    }
}

const OF_BYTES: &str = "; answers wait, and nothing is refused";
const OF_PASSWORDS: &str = "; it stops one password at many accounts, wherever it comes from, and no guessing at one account; \
                            each gate counts for itself, from zero each day";
const OF_ACCOUNTS: &str = "; it stops many attempts at one account, and not one attempt at each of many";

#[cfg(test)]
mod tests {
    use super::super::{Sources, load};
    use super::*;

    fn words(limit: &str) -> String {
        let text = format!(
            "listen = \"http://[::]:80\"\nupstream = \"http://a\"\n\
             [route.a]\nmatch = \"POST /\"\n[limit.address]\n{limit}"
        );
        let config = load(&Sources::from_text("f", &text)).config.unwrap();
        worst_case(&config.policy.limits[0])
    }

    #[test]
    fn a_rate_is_what_it_lets_through_in_a_day() {
        assert_eq!(
            words("rate = \"10 per 5m\""),
            "address: at most 10 at once, then 2,880 a day from one address"
        );
        assert_eq!(
            words("rate = \"7 per day burst 1000\""),
            "address: at most 1,000 at once, then 7 a day from one address"
        );
        assert_eq!(
            words("rate = \"1 per 7d\""),
            "address: at most 1 at once, then 1 a week from one address"
        );
    }

    #[test]
    fn rounding_of_the_time_for_a_token_does_not_show() {
        for (rate, words) in
            [("7 per day", "7 a day"), ("1000/s", "86,400,000 a day"), ("3 per 7d", "3 a week")]
        {
            let text = self::words(&format!("rate = \"{rate}\""));
            assert!(text.contains(&format!("then {words}")), "{text}");
        }
    }

    #[test]
    fn an_interval_says_what_a_border_lets_through() {
        assert_eq!(
            words("rate = \"10 per 5m\"\nrefill = \"interval\""),
            "address: at most 10 every 5m from one address; 20 around the border of a period"
        );
        let text = words("rate = \"100 per day\"\nrefill = \"interval\"\nanchor = \"clock\"\ndebt = 150");
        let expected = "address: at most 100 every 24h by the clock (UTC) from one address; \
                        200 around the border of a period; refused attempts cost too, for a wait of at most 2d";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_rolling_window_says_what_fits_across_its_borders() {
        assert_eq!(
            words("rolling = \"10000 per 24h\"\nevery = \"1h\""),
            "address: at most 10,000 in any 24 whole hours from one address; 20,000 in any 24h"
        );
        let text = words("rolling = \"10000 per 24h\"\nrate = \"1000 per 1h\"\ninitial = 50\ndebt = 10");
        let expected = "address: at most 10,000 in any 24 whole hours and 1,000 in one from one address; \
                        11,000 in any 24h; 2,000 around the border of one; a new bucket starts with 50; \
                        refused attempts cost too, for a wait of at most 24h";
        assert_eq!(text, expected);
        let text = words("rolling = \"100 per 45m\"\nevery = \"90s\"");
        assert!(text.starts_with("address: at most 100 in any 30 whole periods of 1m30s from"), "{text}");
    }

    #[test]
    fn a_window_of_one_period_is_an_interval() {
        assert_eq!(
            words("rolling = \"10 per 24h\"\nevery = \"24h\""),
            "address: at most 10 every 24h from one address; 20 around the border of a period"
        );
    }

    #[test]
    fn a_floor_says_what_is_guaranteed() {
        let text = words("rate = \"100 per 100s\"\nfloor = \"10/s\"\ninitial = 50\ndebt = 7");
        let expected = "address: at most 110 at once, then 950,400 a day from one address; \
                        10 at once and 864,000 a day of these are guaranteed; a new bucket starts with 60; \
                        refused attempts cost too, down to 7 below zero in the pool";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_a_continuous_limit_adds_is_said_after_its_promise() {
        let text = words("rate = \"10 per 5m\"\ninitial = 5\ndebt = 10\nwait = \"2s\"");
        let expected = "address: at most 10 at once, then 2,880 a day from one address; \
                        an attempt whose tokens are due within 2s is held until then; a new bucket starts with 5; \
                        refused attempts cost too, for a wait of at most 5m28s";
        assert_eq!(text, expected);
        let text = words("rate = \"7 per day\"\ndebt = 6");
        assert!(
            text.ends_with("a wait of at most 24h"),
            "rounding of the time for a token does not show: {text}"
        );
    }

    #[test]
    fn other_rates_say_it_in_the_shape_of_the_limit() {
        let text = words(
            "rate = \"10 per 5m\"\nrefill = \"interval\"\ndebt = 5\n[limit.address.rates]\n\"10.0.0.0/8\" = \"60/min\"",
        );
        assert!(
            text.ends_with("; `10.0.0.0/8`: at most 60 every 1m (120 around the border of a period)"),
            "{text}"
        );
    }

    #[test]
    fn prefixes_and_other_keys_are_named() {
        let text = words("rate = \"60 per 5m\"\nipv4 = 24\nipv6 = 48");
        assert!(text.ends_with("from one /24 network (IPv6: /48)"), "{text}");
        assert!(
            words("rate = \"1/s\"\nkey = \"all\"").ends_with("then 86,400 a day from all clients together")
        );
        let text = words("rate = \"1/s\"\nkey = \"host+header:X-Key\"");
        assert!(text.ends_with("to one host for one value of header `x-key`"), "{text}");
    }

    #[test]
    fn other_rates_and_exempt_clients_are_named() {
        let text = words(
            "rate = \"1/s\"\nexempt = \"10.1.0.0/16\"\nmode = \"observe\"\n\
             [limit.address.rates]\n\"10.0.0.0/8\" = \"off\"\n\"::1\" = \"1/h burst 5\"",
        );
        let expected = "address: at most 1 at once, then 86,400 a day from one address; \
                        `10.0.0.0/8`: no limit; `::1`: at most 5 at once, then 24 a day; \
                        exempt clients: no limit; only observed, nothing is refused";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_directory_says_what_strangers_have_and_what_all_have() {
        let text = "listen = \"http://[::]:80\"\nupstream = \"http://a\"\n\
                    [route.a]\nmatch = \"POST /\"\nuser = \"form:a\"\n[limit.directory]\ndirectory = \"10 per 30m\"";
        let config = load(&Sources::from_text("f", text)).config.unwrap();
        let expected = "directory: at most 4 at once, then 12 a day for one account; it stops many attempts at one \
                        account, and not one attempt at each of many; only failures count; \
                        known devices and strangers together: at most 6 at once, then 19 a day";
        assert_eq!(worst_cases(&config.policy), [("directory", expected.to_owned())]);
    }
}
