//! Request headers that are not passed to the application: odd spellings, and identity headers unless a trusted proxy
//! sent them.
//!
//! The names stand in [`lists`], and in `docs/operating.md`. What belongs to one connection, and what is written in
//! place of what was dropped, is [`headers`](super)' business.

pub mod lists;

use std::collections::HashMap;

use http::HeaderName;

use self::lists::{ALWAYS_PASSED, NEVER, REWRITTEN, UNLESS_TRUSTED};

/// Which headers are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderFilter {
    /// Whether names that are no plain words are dropped, whatever they are.
    drop_odd: bool,
    /// What each name is; `None` for one that passes although a prefix names it.
    names: HashMap<Box<str>, Option<SenderRule>>,
    /// The same for all names that begin so, the longest first.
    prefixes: Vec<(Box<str>, Option<SenderRule>)>,
    /// The first letters of all of them, a bit each: most names are told apart by that.
    letters: u128,
}

/// Who may send a header that is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderRule {
    /// The gate writes it; what a trusted proxy sent stays in it.
    Rewritten,
    /// No peer.
    Never,
    /// Proxies of ours.
    UnlessTrusted,
}

/// A header's name in lower case, or the beginning of several: `x-remote-*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern {
    text: Box<str>,
    is_prefix: bool,
}

impl Default for HeaderFilter {
    /// The built-in lists alone.
    fn default() -> Self {
        let mut filter = Self { drop_odd: true, names: HashMap::new(), prefixes: Vec::new(), letters: 0 };
        for name in ALWAYS_PASSED {
            filter.set(&NamePattern::of(name), None);
        }
        for (list, kind) in [
            (REWRITTEN, SenderRule::Rewritten),
            (NEVER, SenderRule::Never),
            (UNLESS_TRUSTED, SenderRule::UnlessTrusted),
        ] {
            list.iter().for_each(|name| filter.set(&NamePattern::of(name), Some(kind)));
        }
        filter
    }
}

impl HeaderFilter {
    /// The same where names that are no plain words pass, unless they are spellings of one that does not.
    #[must_use]
    pub fn passing_odd_names(self) -> Self {
        Self { drop_odd: false, ..self }
    }

    /// The same without these names. What the gate writes itself stays.
    #[must_use]
    pub fn without(mut self, pattern: &NamePattern) -> Self {
        let is_meant = |text: &str, kind: Option<SenderRule>| {
            matches!(kind, Some(SenderRule::Never | SenderRule::UnlessTrusted)) && pattern.covers(text)
        };
        self.names.retain(|text, kind| !is_meant(text, *kind));
        self.prefixes.retain(|(text, kind)| !(pattern.is_prefix && is_meant(text, *kind)));
        if self.kind(&pattern.text) != Some(SenderRule::Rewritten) {
            self.set(pattern, None);
        }
        self
    }

    /// The same with these names, which only proxies of ours may send.
    #[must_use]
    pub fn with(mut self, pattern: &NamePattern) -> Self {
        if self.kind(&pattern.text).is_none() {
            self.set(pattern, Some(SenderRule::UnlessTrusted));
        }
        self
    }

    /// What this name is, or one that begins so.
    #[must_use]
    pub fn kind_of(&self, pattern: &NamePattern) -> Option<SenderRule> {
        let mut all =
            self.names.iter().filter(|(text, _)| pattern.covers(text)).filter_map(|(_, kind)| *kind);
        let of_prefix =
            || self.prefixes.iter().find(|(text, _)| pattern.covers(text)).and_then(|(_, kind)| *kind);
        self.kind(&pattern.text).or_else(|| all.find(|_| pattern.is_prefix)).or_else(of_prefix)
    }

    /// Whether a header of a peer does not go further. `configured` is the one in which a trusted proxy says who the
    /// client is.
    pub(super) fn drops(&self, name: &HeaderName, trusted: bool, configured: Option<&HeaderName>) -> bool {
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

    /// A name that CGI and PHP fold onto another (`X_Forwarded_For`) is what it becomes.
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
        if text.bytes().next().is_none_or(|letter| self.letters & bit(letter) == 0) {
            return None;
        }
        if let Some(kind) = self.names.get(text) {
            return *kind;
        }
        self.prefixes.iter().find(|(prefix, _)| text.starts_with(&**prefix)).and_then(|(_, kind)| *kind)
    }

    fn set(&mut self, pattern: &NamePattern, kind: Option<SenderRule>) {
        self.letters |= pattern.text.bytes().next().map_or(0, bit);
        if pattern.is_prefix {
            let at = self.prefixes.partition_point(|(known, _)| known.len() > pattern.text.len());
            self.prefixes.insert(at, (pattern.text.clone(), kind));
        } else {
            self.names.insert(pattern.text.clone(), kind);
        }
    }
}

impl NamePattern {
    /// A name, or with `*` at its end the beginning of several; `None` if it is neither.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (name, is_prefix) = text.strip_suffix('*').map_or((text, false), |name| (name, true));
        // A token may hold an asterisk, and one that does is meant for something else here.
        let is_name = !name.contains('*') && name.parse::<HeaderName>().is_ok();
        is_name.then(|| Self { text: name.to_ascii_lowercase().into(), is_prefix })
    }

    /// One of the lists.
    fn of(name: &str) -> Self {
        let (text, is_prefix) = name.strip_suffix('*').map_or((name, false), |name| (name, true));
        Self { text: text.into(), is_prefix }
    }

    fn covers(&self, text: &str) -> bool {
        if self.is_prefix { text.starts_with(&*self.text) } else { *text == *self.text }
    }
}

fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Names are ASCII (RFC 9110, 5.1).
fn bit(letter: u8) -> u128 {
    1 << (letter & 127)
}

#[cfg(test)]
mod tests;
