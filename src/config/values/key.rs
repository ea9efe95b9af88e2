//! `"ip"`, `"ip+host"`, `"header:X-Api-Key"`: what a bucket is kept for.

use std::str::FromStr;

use http::HeaderName;

use super::super::diagnostic::suggest;
use super::Mistake;
use super::cookie::is_token;
use crate::policy::key::Part;

/// The parts of a limit's key, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key(pub Vec<Part>);

impl FromStr for Key {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let (mut parts, mut at) = (Vec::new(), 0);
        for word in text.split('+') {
            let place = at..at + word.len();
            at = place.end + 1;
            let pointing = |mistake: Mistake| Mistake { part: Some(place.clone()), ..mistake };
            let part = parse_part(word).map_err(pointing)?;
            if parts.contains(&part) {
                return Err(pointing(Mistake::new(format!("`{word}` is there twice"), "")));
            }
            parts.push(part);
        }
        if parts.len() > 1 && parts.contains(&Part::All) {
            return Err(Mistake::new("`all` is one bucket for everybody and stands alone", ""));
        }
        Ok(Self(parts))
    }
}

fn parse_part(word: &str) -> Result<Part, Mistake> {
    match word.split_once(':') {
        None => match word {
            "ip" => Ok(Part::Ip),
            "host" => Ok(Part::Host),
            "all" => Ok(Part::All),
            "user" => Ok(Part::User),
            "device" => Ok(Part::Device),
            _ => Err(Mistake::new(format!("`{word}` is not a part of a key"), suggest(word, PARTS))),
        },
        Some(("header", name)) => name.parse::<HeaderName>().map(Part::Header).map_err(|_| {
            Mistake::new(format!("`{name}` is not a header name"), "as in \"header:X-Api-Key\"")
        }),
        Some(("cookie", name)) if is_token(name) => Ok(Part::Cookie(name.to_owned())),
        Some(("cookie", name)) => {
            Err(Mistake::new(format!("`{name}` is not a cookie name"), "as in \"cookie:SESSION\""))
        }
        Some((kind, _)) => {
            Err(Mistake::new(format!("`{kind}:` is not a part of a key"), suggest(kind, PARTS)))
        }
    }
}

const PARTS: [&str; 7] = ["ip", "user", "device", "host", "all", "header:NAME", "cookie:NAME"];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_are_joined_by_a_plus() {
        let header = Part::Header(HeaderName::from_static("x-api-key"));
        assert_eq!("ip".parse(), Ok(Key(vec![Part::Ip])));
        assert_eq!("header:X-Api-Key+host".parse(), Ok(Key(vec![header, Part::Host])));
        assert_eq!("cookie:SID+ip".parse(), Ok(Key(vec![Part::Cookie("SID".into()), Part::Ip])));
        assert_eq!("user+device".parse(), Ok(Key(vec![Part::User, Part::Device])));
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
            assert!(text.parse::<Key>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_wrong_part_is_pointed_at() {
        assert_eq!("ip+hots".parse::<Key>().unwrap_err().part, Some(3..7));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = text.parse::<Key>();
        }

        #[test]
        fn every_combination_of_parts_is_read(parts in prop::sample::subsequence(vec!["ip", "user", "device", "host", "header:A", "cookie:B"], 1..4)) {
            prop_assert_eq!(parts.join("+").parse::<Key>().unwrap().0.len(), parts.len());
        }
    }
}
