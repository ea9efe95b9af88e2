//! A limit in words: what it lets through in the worst case.
//!
//! `check` prints it, so that whoever wrote `10 per 5m` reads what it means for a day of guessing.

use std::collections::BTreeMap;

use super::diagnostic::grouped;
use crate::bucket::{Continuous, Spec};
use crate::policy::key::{Part, PrefixLengths};
use crate::policy::{Limit, Mode};
use crate::time::Span;

/// `address: at most 10 at once, then 2,880 a day from one address`, and what is different for whom.
#[must_use]
pub fn worst_case(limit: &Limit) -> String {
    let subject: Vec<String> = limit.key.iter().map(|part| subject(part, limit.prefixes)).collect();
    let mut text = format!("{}: {} {}", limit.name, promise(limit.spec), subject.join(" "));
    let rates: BTreeMap<&str, Option<Spec>> =
        limit.rates.iter().map(|(_, rate)| (&*rate.class, rate.spec)).collect();
    for (class, spec) in rates {
        let words = spec.map_or_else(|| "no limit".to_owned(), promise);
        text.push_str(&format!("; `{class}`: {words}"));
    }
    if !limit.exempt.is_empty() {
        text.push_str("; exempt clients: no limit");
    }
    text.push_str(match limit.mode {
        Mode::Enforce => "",
        Mode::Observe => "; only observed, nothing is refused",
        Mode::Off => "; off, nothing is counted",
    });
    text
}

fn promise(spec: Spec) -> String {
    match spec {
        Spec::Continuous(bucket) => {
            format!("at most {} at once, then {}", grouped(bucket.burst().into()), pace(&bucket))
        }
        other => format!("at most {} at once", grouped(other.burst().into())),
    }
}

/// By the shortest period that brings a token back: "then 1 a week" says more than "then 0 a day".
fn pace(bucket: &Continuous) -> String {
    let periods = [(DAY, "day"), (DAY.times(7), "week"), (DAY.times(365), "year")];
    for (period, name) in periods {
        let tokens = tokens_in(period, bucket.per_token());
        if tokens > 0 {
            return format!("{} a {name}", grouped(tokens));
        }
    }
    "less than 1 a year".to_owned()
}

/// The time for a token is rounded up by less than a nanosecond, so that a whole count may seem to miss by as much.
fn tokens_in(period: Span, per_token: Span) -> u64 {
    let (period, per_token) = (period.as_nanos(), per_token.as_nanos().max(1));
    let whole = period / per_token;
    let missing = per_token - period % per_token;
    if missing < per_token && missing <= whole { whole + 1 } else { whole }
}

fn subject(part: &Part, lengths: PrefixLengths) -> String {
    match part {
        Part::Ip => client(lengths),
        Part::Host => "to one host".to_owned(),
        Part::All => "from everybody together".to_owned(),
        Part::Header(name) => format!("for one value of header `{name}`"),
        Part::Cookie(name) => format!("for one value of cookie `{name}`"),
    }
}

fn client(lengths: PrefixLengths) -> String {
    match (lengths.ipv4, lengths.ipv6) {
        (32, 64 | 128) => "from one address".to_owned(),
        (32, ipv6) => format!("from one address (IPv6: one /{ipv6} network)"),
        (ipv4, ipv6) => format!("from one /{ipv4} network (IPv6: /{ipv6})"),
    }
}

const DAY: Span = Span::from_secs(86_400);

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
    fn prefixes_and_other_keys_are_named() {
        let text = words("rate = \"60 per 5m\"\nipv4 = 24\nipv6 = 48");
        assert!(text.ends_with("from one /24 network (IPv6: /48)"), "{text}");
        assert!(
            words("rate = \"1/s\"\nkey = \"all\"").ends_with("then 86,400 a day from everybody together")
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
}
