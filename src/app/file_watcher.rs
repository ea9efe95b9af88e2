//! Polls files for changes.
//!
//! Polled: watching by the kernel's notices breaks where files are renamed into place or reached through links.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files, and how they were when somebody looked last.
#[derive(Debug)]
pub(super) struct FileWatcher(Vec<(PathBuf, FileState)>);

/// What tells a file's content without reading it; `None` for a file that is not there.
type FileState = Option<(u64, u64, i64, i64)>;

impl FileWatcher {
    /// These files as they are now.
    pub(super) fn new(paths: Vec<PathBuf>) -> Self {
        let mut watch = Self(Vec::new());
        watch.set_paths(paths);
        watch
    }

    /// Looks at all of them, and says whether one is another than at the last look.
    pub(super) fn poll(&mut self) -> bool {
        let mut changed = false;
        for (path, seen) in &mut self.0 {
            let now = state_of(path);
            changed |= *seen != now;
            *seen = now;
        }
        changed
    }

    /// Watches these files from now on. One that was watched before is another as soon as it is not what it was at
    /// the last look, so nothing that is written while it is read goes unnoticed.
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
        let mut watch = FileWatcher::new(vec![one.clone()]);
        assert!(!watch.poll());
        std::fs::write(&one, "22").unwrap();
        watch.set_paths(vec![other.clone(), one.clone()]);
        assert!(watch.poll() && !watch.poll());
        std::fs::write(&other, "new").unwrap();
        assert!(watch.poll(), "a file that was not there");
        watch.set_paths(vec![one]);
        std::fs::write(&other, "newer").unwrap();
        assert!(!watch.poll(), "nobody watches it any more");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
