//! `"ip"`, `"ip+host"`, `"header:X-Api-Key"`: the parts of a request that select a bucket.

use std::fmt;
use std::str::FromStr;

use http::HeaderName;
use tollgate_grammar::diagnostic::suggest;
use tollgate_grammar::{Mistake, Syntax};

use crate::defences::OWNERS;
use crate::policy::client_fact::ClientFact;
use crate::policy::cookies;
use crate::policy::key::KeyPart;

/// The parts of a limit's key, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitKey(pub Vec<KeyPart>);

impl FromStr for LimitKey {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let (mut parts, mut at) = (Vec::new(), 0);
        for word in text.split('+') {
            let range = at..at + word.len();
            at = range.end + 1;
            let pointing = |mistake: Mistake| Mistake { part: Some(range.clone()), ..mistake };
            let part = parse_part(word).map_err(pointing)?;
            if parts.contains(&part) {
                return Err(pointing(Mistake::new(format!("`{word}` is there twice"), "")));
            }
            parts.push(part);
        }
        if parts.len() > 1 && parts.contains(&KeyPart::All) {
            return Err(Mistake::new("`all` is one bucket for all clients and must be alone", ""));
        }
        Ok(Self(parts))
    }
}

impl Syntax for LimitKey {
    fn pattern() -> Option<String> {
        let owner = OWNERS.key;
        let facts = ClientFact::ALL.map(|fact| fact.words().word).join("|");
        let part = format!("(ip|user|{owner}|{facts}|password|host|all|header:[^+]+|cookie:[^+]+)");
        Some(format!("^{part}(\\+{part})*$"))
    }
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, part) in self.0.iter().enumerate() {
            f.write_str(if at > 0 { "+" } else { "" })?;
            match part {
                KeyPart::Ip => f.write_str("ip"),
                KeyPart::Host => f.write_str("host"),
                KeyPart::All => f.write_str("all"),
                KeyPart::User => f.write_str("user"),
                KeyPart::Owner => f.write_str(OWNERS.key),
                KeyPart::Fact(fact) => f.write_str(fact.words().word),
                KeyPart::Password => f.write_str("password"),
                KeyPart::Header(name) => write!(f, "header:{name}"),
                KeyPart::Cookie(name) => write!(f, "cookie:{name}"),
            }?;
        }
        Ok(())
    }
}

fn parse_part(word: &str) -> Result<KeyPart, Mistake> {
    match word.split_once(':') {
        None => match word {
            "ip" => Ok(KeyPart::Ip),
            "host" => Ok(KeyPart::Host),
            "all" => Ok(KeyPart::All),
            "user" => Ok(KeyPart::User),
            "password" => Ok(KeyPart::Password),
            owner if owner == OWNERS.key => Ok(KeyPart::Owner),
            _ => ClientFact::of_word(word.as_bytes()).map(KeyPart::Fact).ok_or_else(|| {
                Mistake::new(format!("`{word}` is not a part of a key"), suggest(word, parts()))
            }),
        },
        Some(("header", name)) => name.parse::<HeaderName>().map(KeyPart::Header).map_err(|_| {
            Mistake::new(format!("`{name}` is not a header name"), "as in \"header:X-Api-Key\"")
        }),
        Some(("cookie", name)) if cookies::is_name(name) => Ok(KeyPart::Cookie(name.to_owned())),
        Some(("cookie", name)) => {
            Err(Mistake::new(format!("`{name}` is not a cookie name"), "as in \"cookie:SESSION\""))
        }
        Some((kind, _)) => {
            Err(Mistake::new(format!("`{kind}:` is not a part of a key"), suggest(kind, parts())))
        }
    }
}

fn parts() -> impl Iterator<Item = &'static str> {
    let facts = ClientFact::ALL.map(|fact| fact.words().word);
    let others = ["password", "host", "all", "header:NAME", "cookie:NAME"];
    ["ip", "user", OWNERS.key].into_iter().chain(facts).chain(others)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_are_joined_by_a_plus() {
        let header = KeyPart::Header(HeaderName::from_static("x-api-key"));
        assert_eq!("ip".parse(), Ok(LimitKey(vec![KeyPart::Ip])));
        assert_eq!("header:X-Api-Key+host".parse(), Ok(LimitKey(vec![header, KeyPart::Host])));
        assert_eq!("cookie:SID+ip".parse(), Ok(LimitKey(vec![KeyPart::Cookie("SID".into()), KeyPart::Ip])));
        assert_eq!("user+device".parse(), Ok(LimitKey(vec![KeyPart::User, KeyPart::Owner])));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in [
            "",
            "+",
            "ip+",
            "ip+ip",
            "ip + host",
            "all+ip",
            "header:",
            "header:a b",
            "cookie:",
            "cookie:a=b",
            "cookie:a;b",
            "query:a",
            "users",
            "user+user",
            "device:a",
            "IP",
        ] {
            assert!(text.parse::<LimitKey>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_wrong_part_is_pointed_at() {
        assert_eq!("ip+hots".parse::<LimitKey>().unwrap_err().part, Some(3..7));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = text.parse::<LimitKey>();
        }

        #[test]
        fn every_combination_of_parts_is_read(
            parts in prop::sample::subsequence(vec!["ip", "user", "device", "host", "header:A", "cookie:B"], 1..4),
        ) {
            prop_assert_eq!(parts.join("+").parse::<LimitKey>().unwrap().0.len(), parts.len());
        }
    }
}
