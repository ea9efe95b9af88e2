//! Descriptors: what a rate limit service (Envoy's, v3) is told of a request instead of the request itself.
//!
//! A descriptor belongs to a domain and is a list of entries, each a key and a value. What describes the request (its
//! path, its headers) is in the [`Attempt`](super::attempt::Attempt) as well; here are the rest and what `rls:` patterns
//! compare.

/// A descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Descriptor<'a> {
    /// The domain of the question.
    pub domain: &'a [u8],
    /// Keys and values, in the order of the question.
    pub entries: &'a [(&'a [u8], &'a [u8])],
    /// How many attempts it stands for, at least 1.
    pub hits: u32,
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

/// What a pattern requires of a descriptor: `rls:DOMAIN`, `rls:DOMAIN/VALUE` or `rls:DOMAIN/KEY=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct DescriptorPattern {
    domain: String,
    /// A key and its value.
    entry: Option<(String, String)>,
}

impl DescriptorPattern {
    /// Parses what follows `rls:`; `None` without a domain, or with an empty entry.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (domain, entry) =
            text.split_once('/').map_or((text, None), |(domain, rest)| (domain, Some(rest)));
        let entry = entry.map(|entry| entry.split_once('=').unwrap_or((GENERIC_KEY, entry)));
        let is_missing =
            domain.is_empty() || entry.is_some_and(|(key, value)| key.is_empty() || value.is_empty());
        let entry = entry.map(|(key, value)| (key.to_owned(), value.to_owned()));
        (!is_missing).then(|| Self { domain: domain.to_owned(), entry })
    }

    pub(super) fn fits(&self, descriptor: &Descriptor<'_>) -> bool {
        let has = |(key, value): &(String, String)| {
            descriptor.entries.contains(&(key.as_bytes(), value.as_bytes()))
        };
        self.domain.as_bytes() == descriptor.domain && self.entry.as_ref().is_none_or(has)
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
        let descriptor = Descriptor { domain: b"edge", entries, hits: 1 };
        let fits = |text: &str| DescriptorPattern::parse(text).unwrap().fits(&descriptor);
        for text in ["edge", "edge/login", "edge/generic_key=login", "edge/to_number=206/1=2"] {
            assert!(fits(text), "{text}");
        }
        for text in ["Edge", "edg", "edge/other", "edge/to_number=206", "edge/from_number=206", "other/login"]
        {
            assert!(!fits(text), "{text}");
        }
        for text in ["", "/login", "edge/", "edge/=login", "edge/key="] {
            assert_eq!(DescriptorPattern::parse(text), None, "{text}");
        }
    }
}
