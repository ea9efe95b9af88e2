//! Files that the file names: lists of networks, pages, keys and certificates.
//!
//! Only regular files of a sane size are read, so that `@/dev/zero` is a mistake and not the end of the memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::diagnostic::{Findings, SourceKind, SourceText, Spot};

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
    pub(super) fn resolve(&self, path: &str) -> PathBuf {
        self.base.join(path)
    }

    /// The text of a file; `spot` is where it is named.
    pub(super) fn text(&mut self, path: &str, spot: &Spot, f: &mut Findings) -> Option<Arc<SourceText>> {
        let name = self.resolve(path).display().to_string();
        let bytes = self.bytes(path, spot, f)?;
        match String::from_utf8(bytes) {
            Ok(text) => Some(Arc::new(SourceText { kind: SourceKind::Included, name, text })),
            Err(_) => {
                f.error(spot, format!("cannot read `{name}`"), "it is not UTF-8");
                None
            }
        }
    }

    /// The same for a file that is not a text of ours.
    pub(super) fn bytes(&mut self, path: &str, spot: &Spot, f: &mut Findings) -> Option<Vec<u8>> {
        let path = self.resolve(path);
        match read(&path) {
            Ok(bytes) => {
                if !self.read.contains(&path) {
                    self.read.push(path);
                }
                Some(bytes)
            }
            Err(why) => {
                f.error(spot, format!("cannot read `{}`", path.display()), why);
                None
            }
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let about = std::fs::metadata(path).map_err(|error| words(&error))?;
    if !about.is_file() {
        return Err("it is not a regular file".into());
    }
    if about.len() > MAX_FILE {
        return Err("it is larger than 64 MiB".into());
    }
    std::fs::read(path).map_err(|error| words(&error))
}

/// The system's words change from one to the next; these do not.
fn words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".into(),
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => error.to_string().to_lowercase(),
    }
}

const MAX_FILE: u64 = 64 << 20;
