//! Polls files for changes.
//!
//! It polls because kernel notifications miss files that are renamed into place or reached through links.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::sandbox::Broker;
use crate::config::OwnFiles;

/// Files, and their state at the last poll.
#[derive(Debug)]
pub(super) struct FileWatcher(Vec<(PathBuf, FileState)>);

/// The configuration's own files, whose changes count once they have stayed the same from one poll to the next: while an
/// editor writes, half a file may be a valid one.
#[derive(Debug)]
pub(super) struct SettledFiles {
    /// `None` if they are not watched.
    files: Option<OwnFiles>,
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

impl SettledFiles {
    /// Watches these files from now on, or none.
    pub(super) fn new(files: Option<OwnFiles>) -> Self {
        let mut watched = Self { files: None, watcher: FileWatcher::new(Vec::new()), is_unsettled: false };
        watched.set(files);
        watched
    }

    /// Polls; whether a file has changed, come or gone, and all have settled since.
    pub(super) async fn have_changed(&mut self, broker: &Broker) -> bool {
        let is_changing = self.has_other_files(broker).await | self.watcher.poll();
        let was_unsettled = std::mem::replace(&mut self.is_unsettled, is_changing);
        was_unsettled && !is_changing
    }

    /// Whether there are other files than at the last poll, which are watched from now on.
    async fn has_other_files(&mut self, broker: &Broker) -> bool {
        let Some(files) = self.files.clone().filter(OwnFiles::are_patterns) else { return false };
        // This thread may not list every directory.
        let Ok(present) = broker.run(move || files.present()).await else { return false };
        let are_others = !self.watcher.0.iter().map(|(path, _)| path).eq(&present);
        if are_others {
            self.watcher.set_paths(present);
        }
        are_others
    }

    pub(super) fn set(&mut self, files: Option<OwnFiles>) {
        self.watcher.set_paths(files.as_ref().map(OwnFiles::as_read).unwrap_or_default());
        self.files = files;
    }

    /// Watches the files of a configuration that was refused: where its mistakes are fixed, it counts.
    pub(super) fn watch_instead(&mut self, files: OwnFiles) {
        if self.are_watched() {
            self.set(Some(files));
        }
    }

    pub(super) fn are_watched(&self) -> bool {
        self.files.is_some()
    }
}

fn state_of(path: &Path) -> FileState {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

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

    #[tokio::test]
    async fn files_that_are_being_written_count_when_they_have_settled() {
        let folder = std::env::temp_dir().join(format!("tollgate-settle-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [main, one, other] = ["gate.toml", "one.site", "other.site"].map(|name| folder.join(name));
        std::fs::write(&main, "include = \"*.site\"").unwrap();
        std::fs::write(&one, "").unwrap();
        let own_files = Sources::from_file(&main).unwrap().with_included().own_files();
        let mut files = SettledFiles::new(Some(own_files));
        let broker = Broker::not_needed();
        let mut settle = async |what: &str| {
            assert!(!files.have_changed(&broker).await, "{what}: it may be half a file");
            assert!(files.have_changed(&broker).await && !files.have_changed(&broker).await, "{what}");
        };
        for text in ["", "22", "333"] {
            std::fs::write(&main, text).unwrap();
            settle("the main file").await;
        }
        std::fs::write(&one, "1").unwrap();
        settle("an included one").await;
        std::fs::write(&other, "1").unwrap();
        settle("a new one").await;
        std::fs::remove_file(&one).unwrap();
        settle("one less").await;
        files.set(None);
        std::fs::write(&other, "4444").unwrap();
        assert!(!files.have_changed(&broker).await && !files.have_changed(&broker).await);
        assert!(!files.are_watched());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
