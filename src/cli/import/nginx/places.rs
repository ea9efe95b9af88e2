//! Places: the `location` blocks of a server, in the order in which nginx would choose them.

use super::directives::Directives;
use crate::cli::import::path_patterns::{beginning, of_regex};

/// A location, or a server as a whole.
#[derive(Debug)]
pub(super) struct LocationPlace {
    /// The block.
    pub(super) block: Option<usize>,
    pub(super) kind: LocationKind,
    /// Paths as patterns; empty if there are none.
    pub(super) paths: Vec<String>,
    /// As written.
    pub(super) path: String,
    /// Whether the paths count more than the location did, or less.
    pub(super) difference: Option<&'static str>,
}

/// Kinds of locations, in the order in which nginx prefers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LocationKind {
    Exact,
    /// `^~`, which stops the search for regular expressions.
    FirmPrefix,
    Regex,
    Prefix,
}

impl LocationPlace {
    /// All places of a server; the server as a whole is the last if no location takes every path.
    pub(super) fn of_server(file: &Directives, server: Option<usize>) -> Vec<Self> {
        let locations = file.all.iter().enumerate().filter(|(_, directive)| directive.name == "location");
        let within = locations.filter(|(at, _)| file.is_within(*at, server));
        let mut places: Vec<Self> =
            within.filter_map(|(at, directive)| Self::of_words(at, &directive.words)).collect();
        if !places.iter().any(|place| place.kind == LocationKind::Prefix && place.path == "/") {
            let (kind, paths) = (LocationKind::Prefix, vec![beginning("")]);
            places.push(Self { block: server, kind, paths, path: "/".to_owned(), difference: None });
        }
        // Of prefixes the longest wins, of expressions the first.
        places.sort_by_key(|place| {
            let length = if place.kind == LocationKind::Regex { 0 } else { usize::MAX - place.path.len() };
            (place.kind, length)
        });
        places
    }

    /// `None` for a named location, which no client can ask for.
    fn of_words(block: usize, words: &[String]) -> Option<Self> {
        let (sign, path) = match words {
            [sign, path, ..] => (&**sign, path.clone()),
            [word] => {
                let sign =
                    ["=", "^~", "~*", "~"].into_iter().find(|sign| word.starts_with(sign)).unwrap_or("");
                (sign, word[sign.len()..].to_owned())
            }
            [] => return None,
        };
        let (kind, paths, difference) = match sign {
            "=" => (LocationKind::Exact, vec![path.clone()], None),
            "^~" => (LocationKind::FirmPrefix, vec![beginning(&path)], cut(&path)),
            "~" | "~*" => match of_regex(&path) {
                Some(found) => (LocationKind::Regex, found.paths, found.is_wider.then_some(WIDER)),
                None => (LocationKind::Regex, Vec::new(), None),
            },
            _ if path.starts_with('@') => return None,
            _ => (LocationKind::Prefix, vec![beginning(&path)], cut(&path)),
        };
        Some(Self { block: Some(block), kind, paths, path, difference })
    }

    /// Whether everything here is within a wider place.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        other.kind != LocationKind::Regex
            && other.kind != LocationKind::Exact
            && self.kind != LocationKind::Regex
            && self.path != other.path
            && self.path.starts_with(&other.path)
    }
}

/// A beginning that ends within a name.
fn cut(path: &str) -> Option<&'static str> {
    (!path.ends_with('/')).then_some(CUT)
}

const CUT: &str =
    "longer names that begin so, as /login2 with /login, are not counted: patterns have whole segments";
const WIDER: &str = "a part of a segment became a whole one, so more is counted";
