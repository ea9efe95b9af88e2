//! Request headers that are not passed to the application: odd spellings, and identity headers unless a trusted proxy
//! sent them.
//!
//! The built-in names are in [`lists`] and in `docs/headers.md`. [`headers`](super) handles hop-by-hop headers and
//! writes the replacements.

pub mod lists;

use std::collections::HashMap;

use http::HeaderName;

use self::lists::{ALWAYS_PASSED, NEVER, OF_DEFENCES, REWRITTEN, UNLESS_TRUSTED};

/// Which headers are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderFilter {
    /// Whether all odd names are dropped: those with other bytes than letters, digits and hyphens.
    drop_odd: bool,
    /// The rule of each name; `None` for a name that passes although a prefix matches it.
    names: HashMap<Box<str>, Option<SenderRule>>,
    /// The rules of prefixes, the longest first.
    prefixes: Vec<(Box<str>, Option<SenderRule>)>,
    /// A quick check that excludes most names.
    lengths: LengthsByBeginning,
}

/// For each beginning of three bytes, as a hash of nine bits, the lengths of names with a rule, a bit each: the last
/// bit is for all longer ones.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LengthsByBeginning(Box<[u64; BEGINNINGS]>);

impl LengthsByBeginning {
    fn may_have(&self, text: &str) -> bool {
        self.0[Self::slot(text.as_bytes())] >> text.len().min(63) & 1 == 1
    }

    fn add(&mut self, pattern: &NamePattern) {
        let text = pattern.text.as_bytes();
        let shortest = 1 << text.len().min(63);
        let lengths = if pattern.is_prefix { !(shortest - 1) } else { shortest };
        if text.len() < 3 {
            self.0.iter_mut().for_each(|known| *known |= lengths);
        } else {
            self.0[Self::slot(text)] |= lengths;
        }
    }

    fn slot(text: &[u8]) -> usize {
        let byte = |at| usize::from(text.get(at).copied().unwrap_or_default());
        ((byte(0) * 37) ^ (byte(1) * 5) ^ (byte(2) * 89)) % BEGINNINGS
    }
}

const BEGINNINGS: usize = 512;

/// Which peers may send a listed header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderRule {
    /// Rewritten here; a trusted proxy's value is kept.
    Rewritten,
    /// Dropped from every peer.
    Never,
    /// Dropped unless a trusted proxy sent it.
    UnlessTrusted,
}

/// A header name in lower case, or a prefix of names: `x-remote-*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern {
    text: Box<str>,
    is_prefix: bool,
}

impl Default for HeaderFilter {
    /// The built-in lists alone.
    fn default() -> Self {
        let (names, prefixes) = Default::default();
        let lengths = LengthsByBeginning(Box::new([0; BEGINNINGS]));
        let mut filter = Self { drop_odd: true, names, prefixes, lengths };
        for name in ALWAYS_PASSED {
            filter.set(&NamePattern::of(name), None);
        }
        for (list, kind) in [
            (REWRITTEN, SenderRule::Rewritten),
            (NEVER, SenderRule::Never),
            (OF_DEFENCES, SenderRule::Never),
            (UNLESS_TRUSTED, SenderRule::UnlessTrusted),
        ] {
            list.iter().for_each(|name| filter.set(&NamePattern::of(name), Some(kind)));
        }
        filter
    }
}

impl HeaderFilter {
    /// Lets odd names pass, unless they are a spelling of a dropped name.
    #[must_use]
    pub fn passing_odd_names(self) -> Self {
        Self { drop_odd: false, ..self }
    }

    /// Lets these names pass. Rewritten names stay on the list.
    #[must_use]
    pub fn without(mut self, pattern: &NamePattern) -> Self {
        let is_removed = |text: &str, kind: Option<SenderRule>| {
            matches!(kind, Some(SenderRule::Never | SenderRule::UnlessTrusted)) && pattern.covers(text)
        };
        self.names.retain(|text, kind| !is_removed(text, *kind));
        self.prefixes.retain(|(text, kind)| !(pattern.is_prefix && is_removed(text, *kind)));
        if self.kind(&pattern.text) != Some(SenderRule::Rewritten) {
            self.set(pattern, None);
        }
        self
    }

    /// Drops these names, too, unless a trusted proxy sent them.
    #[must_use]
    pub fn with(mut self, pattern: &NamePattern) -> Self {
        if self.kind(&pattern.text).is_none() {
            self.set(pattern, Some(SenderRule::UnlessTrusted));
        }
        self
    }

    /// Drops these names from every peer.
    #[must_use]
    pub fn with_never(mut self, pattern: &NamePattern) -> Self {
        self.set(pattern, Some(SenderRule::Never));
        self
    }

    /// The rule of this name, or of a name that the pattern covers.
    #[must_use]
    pub fn kind_of(&self, pattern: &NamePattern) -> Option<SenderRule> {
        let mut covered =
            self.names.iter().filter(|(text, _)| pattern.covers(text)).filter_map(|(_, kind)| *kind);
        let of_prefix =
            || self.prefixes.iter().find(|(text, _)| pattern.covers(text)).and_then(|(_, kind)| *kind);
        self.kind(&pattern.text).or_else(|| covered.find(|_| pattern.is_prefix)).or_else(of_prefix)
    }

    /// Whether a header of a peer is dropped. `configured` is the header with the client address, if one is configured.
    pub(in crate::proxy) fn drops(
        &self,
        name: &HeaderName,
        trusted: bool,
        configured: Option<&HeaderName>,
    ) -> bool {
        let text = name.as_str();
        if is_plain(text) {
            if configured == Some(name) {
                return !trusted;
            }
            return match self.kind(text) {
                None => false,
                Some(SenderRule::Never) => true,
                Some(SenderRule::Rewritten | SenderRule::UnlessTrusted) => !trusted,
            };
        }
        self.drop_odd || self.drops_odd(text, trusted, configured)
    }

    /// An odd name that CGI and PHP fold onto another one (`X_Forwarded_For`) has that one's rule.
    fn drops_odd(&self, text: &str, trusted: bool, configured: Option<&HeaderName>) -> bool {
        let folded: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        if ALWAYS_PASSED.contains(&folded.as_str()) || configured.is_some_and(|name| name.as_str() == folded)
        {
            return true;
        }
        match self.kind(text).or_else(|| self.kind(&folded)) {
            None => false,
            Some(SenderRule::Rewritten | SenderRule::Never) => true,
            Some(SenderRule::UnlessTrusted) => !trusted,
        }
    }

    fn kind(&self, text: &str) -> Option<SenderRule> {
        if !self.lengths.may_have(text) {
            return None;
        }
        if let Some(kind) = self.names.get(text) {
            return *kind;
        }
        self.prefixes.iter().find(|(prefix, _)| text.starts_with(&**prefix)).and_then(|(_, kind)| *kind)
    }

    fn set(&mut self, pattern: &NamePattern, kind: Option<SenderRule>) {
        if kind.is_some() {
            self.lengths.add(pattern);
        }
        if pattern.is_prefix {
            let at = self.prefixes.partition_point(|(known, _)| known.len() > pattern.text.len());
            self.prefixes.insert(at, (pattern.text.clone(), kind));
        } else {
            self.names.insert(pattern.text.clone(), kind);
        }
    }
}

impl NamePattern {
    /// A name, or a prefix with `*` at its end; `None` if it is neither.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (name, is_prefix) = text.strip_suffix('*').map_or((text, false), |name| (name, true));
        // RFC 9110 allows `*` in a name; here it only marks a prefix.
        let is_name = !name.contains('*') && name.parse::<HeaderName>().is_ok();
        is_name.then(|| Self { text: name.to_ascii_lowercase().into(), is_prefix })
    }

    /// A name of the built-in lists.
    fn of(name: &str) -> Self {
        let (text, is_prefix) = name.strip_suffix('*').map_or((name, false), |name| (name, true));
        Self { text: text.into(), is_prefix }
    }

    fn covers(&self, text: &str) -> bool {
        if self.is_prefix { text.starts_with(&*self.text) } else { *text == *self.text }
    }
}

/// By a table, and without a branch for each byte: names are too short for vector instructions.
fn is_plain(text: &str) -> bool {
    text.bytes().fold(0, |odd, byte| odd | ODD[usize::from(byte)]) == 0
}

/// 0 for letters, digits and the hyphen.
const ODD: [u8; 256] = {
    let mut odd = [1; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            odd[byte as usize] = 0;
        }
        byte += 1;
    }
    odd
};

#[cfg(test)]
mod tests;
