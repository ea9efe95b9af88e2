//! A file that is about to be written to a directory that the configuration includes: its place, and the sources with it.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use tollgate_grammar::{SourceKind, SourceText, Spot};

use super::{DIALECT, Included, MAX_FILES, OPTIONS, Sources, is_glob, patterns};

impl Sources {
    /// Where a file of this name is included from: the directory of the first pattern of `include` that means it. `None` if
    /// none does.
    #[must_use]
    pub fn place_of_included(&self, name: &str) -> Option<PathBuf> {
        patterns(self).iter().map(|pattern| Path::new(&pattern.value)).find_map(|pattern| {
            let (directory, names) = (pattern.parent()?, pattern.file_name()?.to_str()?);
            let is_one_directory = is_glob(names) && !is_glob(&directory.to_string_lossy());
            let names = glob::Pattern::new(names).ok().filter(|_| is_one_directory)?;
            names.matches_with(name, OPTIONS).then(|| self.base.join(directory).join(name))
        })
    }

    /// The same sources, as if this file were in a directory that they include.
    #[must_use]
    pub fn with_new_file(self, path: &Path, text: &str) -> Self {
        let mut sources = self.with_included();
        sources.included.iter_mut().for_each(|included| included.add(path, text));
        sources
    }
}

impl Included {
    /// Adds a file where it comes among the others of its directory, which are sorted by name.
    fn add(&mut self, path: &Path, text: &str) {
        let name = path.display().to_string();
        let is_next_to_it = |text: &Arc<SourceText>| directory(Path::new(&text.name)) == directory(path);
        let next = self
            .texts
            .iter()
            .position(|text| is_next_to_it(text) && Path::new(&text.name).file_name() > path.file_name());
        let last = || self.texts.iter().rposition(is_next_to_it).map(|at| at + 1);
        let at = next.or_else(last).unwrap_or(self.texts.len());
        let text = Arc::new(SourceText {
            kind: SourceKind::Included,
            name,
            text: text.to_owned(),
            dialect: &DIALECT,
        });
        let spot = Spot::whole(&text);
        if self.texts.len() >= MAX_FILES {
            self.findings.error(&spot, "too much to include", "1,000 files at most, of 64 MiB in all");
        }
        self.files.push((path.to_path_buf(), spot));
        self.texts.insert(at, text);
    }
}

/// The directory of a file, without the `.` that `./sites` begins with.
fn directory(path: &Path) -> Option<PathBuf> {
    Some(path.parent()?.components().filter(|part| *part != Component::CurDir).collect())
}
