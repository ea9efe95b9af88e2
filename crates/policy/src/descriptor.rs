//! Descriptors: what a rate limit service (Envoy's, v3) or a policy server (Dovecot's) is told of a request instead of the
//! request itself.
//!
//! A descriptor belongs to a domain or a protocol and is a list of entries, each a key and a value. What describes the request
//! (its path, its headers) is in the [`Attempt`](super::attempt::Attempt) as well; here are the rest and what `rls:` and
//! `policy:` patterns compare.

/// A descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Descriptor<'a> {
    /// The asker.
    pub asker: DescriptorAsker<'a>,
    /// Keys and values, in the order of the question.
    pub entries: &'a [(&'a [u8], &'a [u8])],
    /// How many attempts it stands for, at least 1.
    pub hits: u32,
}

/// The asker of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DescriptorAsker<'a> {
    /// Envoy, in this domain.
    Envoy(&'a [u8]),
    /// Dovecot, about a sign-in by this protocol.
    Dovecot(&'a str),
}

impl<'a> Descriptor<'a> {
    /// The first value of a key.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&'a [u8]> {
        self.entries.iter().find(|(name, _)| *name == key.as_bytes()).map(|(_, value)| *value)
    }

    /// Whether it names a path: others fit no pattern with one.
    pub(super) fn names_a_path(&self) -> bool {
        self.value(PATH).is_some()
    }

    /// The account that it names.
    pub(super) fn user(&self) -> Option<&'a [u8]> {
        self.value("user")
    }
}

/// What a pattern requires of a descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum DescriptorPattern {
    /// `rls:DOMAIN`, `rls:DOMAIN/VALUE` or `rls:DOMAIN/KEY=VALUE`: the domain, and a key with its value.
    Domain(String, Option<(String, String)>),
    /// `policy:PROTOCOL`; `None` for `policy:*`.
    Protocol(Option<String>),
}

impl DescriptorPattern {
    /// Parses what follows `rls:`; `None` without a domain, or with an empty entry.
    pub(super) fn of_domain(text: &str) -> Option<Self> {
        let (domain, entry) =
            text.split_once('/').map_or((text, None), |(domain, rest)| (domain, Some(rest)));
        let entry = entry.map(|entry| entry.split_once('=').unwrap_or((GENERIC_KEY, entry)));
        let is_missing =
            domain.is_empty() || entry.is_some_and(|(key, value)| key.is_empty() || value.is_empty());
        let entry = entry.map(|(key, value)| (key.to_owned(), value.to_owned()));
        (!is_missing).then(|| Self::Domain(domain.to_owned(), entry))
    }

    /// Parses what follows `policy:`; `None` if that is no name of a protocol.
    pub(super) fn of_protocol(text: &str) -> Option<Self> {
        let is_name = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        match text {
            "*" => Some(Self::Protocol(None)),
            name => is_name(name).then(|| Self::Protocol(Some(name.to_owned()))),
        }
    }

    pub(super) fn fits(&self, descriptor: &Descriptor<'_>) -> bool {
        match (self, descriptor.asker) {
            (Self::Domain(domain, entry), DescriptorAsker::Envoy(asked)) => {
                let has = |(key, value): &(String, String)| {
                    descriptor.entries.contains(&(key.as_bytes(), value.as_bytes()))
                };
                domain.as_bytes() == asked && entry.as_ref().is_none_or(has)
            }
            (Self::Protocol(protocol), DescriptorAsker::Dovecot(asked)) => {
                protocol.as_ref().is_none_or(|protocol| protocol.eq_ignore_ascii_case(asked))
            }
            _ => false,
        }
    }

    /// Whether Dovecot asks by them.
    pub(super) fn is_of_protocols(&self) -> bool {
        matches!(self, Self::Protocol(_))
    }
}

/// The key of the path and the query.
const PATH: &str = "path";
/// The key of Envoy's action `generic_key`, unless it names another one.
const GENERIC_KEY: &str = "generic_key";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_requires_the_domain_and_an_entry_if_it_names_one() {
        let entries: &[(&[u8], &[u8])] = &[(b"generic_key", b"login"), (b"to_number", b"206/1=2")];
        let descriptor = Descriptor { asker: DescriptorAsker::Envoy(b"edge"), entries, hits: 1 };
        let fits = |text: &str| DescriptorPattern::of_domain(text).unwrap().fits(&descriptor);
        for text in ["edge", "edge/login", "edge/generic_key=login", "edge/to_number=206/1=2"] {
            assert!(fits(text), "{text}");
        }
        for text in ["Edge", "edg", "edge/other", "edge/to_number=206", "edge/from_number=206", "other/login"]
        {
            assert!(!fits(text), "{text}");
        }
        assert!(!DescriptorPattern::of_protocol("*").unwrap().fits(&descriptor));
        for text in ["", "/login", "edge/", "edge/=login", "edge/key="] {
            assert_eq!(DescriptorPattern::of_domain(text), None, "{text}");
        }
    }

    #[test]
    fn a_pattern_of_protocols_requires_one_of_dovecots() {
        let of = |protocol| Descriptor { asker: DescriptorAsker::Dovecot(protocol), entries: &[], hits: 1 };
        let fits = |text: &str, protocol| DescriptorPattern::of_protocol(text).unwrap().fits(&of(protocol));
        for (text, protocol) in [("imap", "imap"), ("imap", "IMAP"), ("*", "smtp"), ("*", "")] {
            assert!(fits(text, protocol), "{text} {protocol}");
        }
        for (text, protocol) in [("imap", "pop3"), ("imap", "imaps"), ("imap", "")] {
            assert!(!fits(text, protocol), "{text} {protocol}");
        }
        assert!(!DescriptorPattern::of_domain("imap").unwrap().fits(&of("imap")));
        for text in ["", "imap/x", "**", "a b"] {
            assert_eq!(DescriptorPattern::of_protocol(text), None, "{text}");
        }
    }
}
