//! Files that the file names: lists of networks and pages.
//!
//! Only regular files of a sane size are read, so that `@/dev/zero` is a mistake and not the end of the memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::diagnostic::{Findings, Source, SourceKind, Spot};

/// Reads files relative to the configuration and remembers which.
pub(super) struct Files<'b> {
    base: &'b Path,
    /// All that were read, each once.
    pub(super) read: Vec<PathBuf>,
}

impl<'b> Files<'b> {
    pub(super) fn new(base: &'b Path) -> Self {
        Self { base, read: Vec::new() }
    }

    /// Where a file is that is named in the configuration.
    pub(super) fn place(&self, path: &str) -> PathBuf {
        self.base.join(path)
    }

    /// The text of a file; `spot` is where it is named.
    pub(super) fn text(&mut self, path: &str, spot: &Spot, f: &mut Findings) -> Option<Arc<Source>> {
        let path = self.place(path);
        let name = path.display().to_string();
        match read(&path) {
            Ok(text) => {
                if !self.read.contains(&path) {
                    self.read.push(path);
                }
                Some(Arc::new(Source { kind: SourceKind::Included, name, text }))
            }
            Err(why) => {
                f.error(spot, format!("cannot read `{name}`"), why);
                None
            }
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let about = std::fs::metadata(path).map_err(|error| words(&error))?;
    if !about.is_file() {
        return Err("it is not a regular file".into());
    }
    if about.len() > LARGEST {
        return Err("it is larger than 64 MiB".into());
    }
    std::fs::read_to_string(path).map_err(|error| words(&error))
}

/// The system's words change from one to the next; these do not.
fn words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".into(),
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        std::io::ErrorKind::InvalidData => "it is not UTF-8".into(),
        _ => error.to_string().to_lowercase(),
    }
}

const LARGEST: u64 = 64 << 20;
