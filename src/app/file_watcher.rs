//! Polls files for changes.
//!
//! It polls because kernel notifications miss files that are renamed into place or reached through links.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files, and their state at the last poll.
#[derive(Debug)]
pub(super) struct FileWatcher(Vec<(PathBuf, FileState)>);

/// One file, whose changes count once it has stayed the same from one poll to the next: while an editor writes, half a
/// file may be a valid one.
#[derive(Debug)]
pub(super) struct SettledFile {
    watcher: FileWatcher,
    is_unsettled: bool,
}

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

impl SettledFile {
    /// Watches this file from now on, or none.
    pub(super) fn new(path: Option<PathBuf>) -> Self {
        Self { watcher: FileWatcher::new(path.into_iter().collect()), is_unsettled: false }
    }

    /// Polls; whether the file has changed and has settled since.
    pub(super) fn has_changed(&mut self) -> bool {
        let is_changing = self.watcher.poll();
        let was_unsettled = std::mem::replace(&mut self.is_unsettled, is_changing);
        was_unsettled && !is_changing
    }

    pub(super) fn set_path(&mut self, path: Option<PathBuf>) {
        self.watcher.set_paths(path.into_iter().collect());
    }

    pub(super) fn is_watched(&self) -> bool {
        !self.watcher.0.is_empty()
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

    #[test]
    fn a_file_that_is_being_written_counts_when_it_has_settled() {
        let folder = std::env::temp_dir().join(format!("tollgate-settle-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("gate.toml");
        std::fs::write(&path, "1").unwrap();
        let mut file = SettledFile::new(Some(path.clone()));
        assert!(!file.has_changed());
        for text in ["", "22", "333"] {
            std::fs::write(&path, text).unwrap();
            assert!(!file.has_changed(), "{text}");
        }
        assert!(file.has_changed() && !file.has_changed());
        file.set_path(None);
        std::fs::write(&path, "4444").unwrap();
        assert!(!file.has_changed() && !file.has_changed() && !file.is_watched());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
