//! The paths that the requests of a log have, to help users with a log in which no route finds an attempt.

use std::collections::HashMap;

use super::report::SeenPath;

/// How often each path was asked for; of very many only the first ones are counted.
#[derive(Debug, Default)]
pub(super) struct SeenPaths(HashMap<String, u64>);

impl SeenPaths {
    /// Counts a target by its path.
    pub(super) fn add(&mut self, target: &str) {
        let path = target.split(['?', '#']).next().unwrap_or_default();
        self.add_path(&path.chars().take(MAX_LENGTH).collect::<String>(), 1);
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        other.0.iter().for_each(|(path, count)| self.add_path(path, *count));
    }

    fn add_path(&mut self, path: &str, more: u64) {
        if let Some(count) = self.0.get_mut(path) {
            *count += more;
        } else if self.0.len() < MAX_PATHS {
            self.0.insert(path.to_owned(), more);
        }
    }

    /// The most frequent ones, escaped, because a terminal would obey what a client has put there.
    pub(super) fn most(&self) -> Vec<SeenPath> {
        let mut paths: Vec<_> = self.0.iter().collect();
        paths.sort_by(|(one, times), (other, often)| often.cmp(times).then(one.cmp(other)));
        let shown =
            |(path, &requests): (&String, &u64)| SeenPath { path: path.escape_debug().to_string(), requests };
        paths.into_iter().take(SHOWN).map(shown).collect()
    }
}

const MAX_PATHS: usize = 1_000;
/// Characters of a path.
const MAX_LENGTH: usize = 100;
const SHOWN: usize = 10;
