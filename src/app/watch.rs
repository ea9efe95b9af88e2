//! Files that are read again when they change.
//!
//! Polled: watching by the kernel's notices breaks where files are renamed into place or reached through links.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files, and how they were when somebody looked last.
#[derive(Debug)]
pub(super) struct Watch(Vec<(PathBuf, Seen)>);

/// What tells a file's content without reading it; `None` for a file that is not there.
type Seen = Option<(u64, u64, i64, i64)>;

impl Watch {
    /// These files as they are now.
    pub(super) fn over(paths: Vec<PathBuf>) -> Self {
        let mut watch = Self(Vec::new());
        watch.turn_to(paths);
        watch
    }

    /// Looks at all of them, and says whether one is another than at the last look.
    pub(super) fn look(&mut self) -> bool {
        let mut changed = false;
        for (path, seen) in &mut self.0 {
            let now = look_at(path);
            changed |= *seen != now;
            *seen = now;
        }
        changed
    }

    /// Watches these files from now on. One that was watched before is another as soon as it is not what it was at
    /// the last look, so nothing that is written while it is read goes unnoticed.
    pub(super) fn turn_to(&mut self, paths: Vec<PathBuf>) {
        let known = std::mem::take(&mut self.0);
        let watched = paths.into_iter().map(|path| {
            let seen = known.iter().find(|(known, _)| *known == path).map(|(_, seen)| *seen);
            let seen = seen.unwrap_or_else(|| look_at(&path));
            (path, seen)
        });
        self.0 = watched.collect();
    }
}

fn look_at(path: &Path) -> Seen {
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
        let mut watch = Watch::over(vec![one.clone()]);
        assert!(!watch.look());
        std::fs::write(&one, "22").unwrap();
        watch.turn_to(vec![other.clone(), one.clone()]);
        assert!(watch.look() && !watch.look());
        std::fs::write(&other, "new").unwrap();
        assert!(watch.look(), "a file that was not there");
        watch.turn_to(vec![one]);
        std::fs::write(&other, "newer").unwrap();
        assert!(!watch.look(), "nobody watches it any more");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
