//! Polls files for changes.
//!
//! It polls because kernel notifications miss files that are renamed into place or reached through links.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files, and their state at the last poll.
#[derive(Debug)]
pub(super) struct FileWatcher(Vec<(PathBuf, FileState)>);

/// What shows a change without reading the file: inode, length, modification time. `None` if the file is missing.
type FileState = Option<(u64, u64, i64, i64)>;

impl FileWatcher {
    /// Watches these files from now on.
    pub(super) fn new(paths: Vec<PathBuf>) -> Self {
        let mut watcher = Self(Vec::new());
        watcher.set_paths(paths);
        watcher
    }

    /// Polls all files; whether one has changed since the last poll.
    pub(super) fn poll(&mut self) -> bool {
        let mut changed = false;
        for (path, seen) in &mut self.0 {
            let now = state_of(path);
            changed |= *seen != now;
            *seen = now;
        }
        changed
    }

    /// Replaces the list of files. A file that stays keeps its last state, so a write during a reload is not missed.
    pub(super) fn set_paths(&mut self, paths: Vec<PathBuf>) {
        let known = std::mem::take(&mut self.0);
        let watched = paths.into_iter().map(|path| {
            let seen = known.iter().find(|(known, _)| *known == path).map(|(_, seen)| *seen);
            let seen = seen.unwrap_or_else(|| state_of(&path));
            (path, seen)
        });
        self.0 = watched.collect();
    }
}

fn state_of(path: &Path) -> FileState {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_once_and_not_forgotten_over_another_list() {
        let folder = std::env::temp_dir().join(format!("tollgate-watch-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (one, other) = (folder.join("one"), folder.join("other"));
        std::fs::write(&one, "1").unwrap();
        let mut watcher = FileWatcher::new(vec![one.clone()]);
        assert!(!watcher.poll());
        std::fs::write(&one, "22").unwrap();
        watcher.set_paths(vec![other.clone(), one.clone()]);
        assert!(watcher.poll() && !watcher.poll());
        std::fs::write(&other, "new").unwrap();
        assert!(watcher.poll(), "a file that was not there");
        watcher.set_paths(vec![one]);
        std::fs::write(&other, "newer").unwrap();
        assert!(!watcher.poll(), "it is no longer watched");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
