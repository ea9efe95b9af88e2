//! What the configuration names outside itself: lists of networks, pages, keys and certificates, and variables.
//!
//! A relative path starts from the directory of the main file, also in an included one. Only regular files of limited
//! size are read, so `@/dev/zero` is a mistake and does not exhaust the memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_grammar::{Findings, SourceKind, SourceText, Spot};

use super::super::secrets::DIALECT;
use super::super::{MAX_FILE, PassedFile, Sources};

/// Reads files relative to the configuration, and remembers which.
pub(in crate::config) struct Files<'b> {
    base: &'b Path,
    /// Where systemd puts the unit's credentials.
    credentials: Option<&'b Path>,
    /// Files that systemd will put there.
    passed: &'b [PassedFile],
    /// Where systemd lets the unit keep its state.
    state: Option<&'b Path>,
    /// The variables that secrets name, with their values.
    pub(super) environment: &'b [(String, String)],
    /// All files that were read, each once.
    pub(super) read: Vec<PathBuf>,
    /// Whether nothing is read that the text names: see [`Sources::is_sealed`].
    pub(super) is_sealed: bool,
}

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub(in crate::config) enum ReadFileError {
    #[error("{}", words(.0))]
    Io(#[from] io::Error),
    #[error("it is not a regular file")]
    NotRegular,
    #[error("it is larger than 64 MiB")]
    TooLarge,
}

impl<'b> Files<'b> {
    pub(in crate::config) fn of(sources: &'b Sources) -> Self {
        Self {
            base: &sources.base,
            credentials: sources.unit_directory("CREDENTIALS_DIRECTORY"),
            passed: &sources.passed,
            state: sources.unit_directory("STATE_DIRECTORY"),
            environment: &sources.environment,
            read: Vec::new(),
            is_sealed: sources.is_sealed,
        }
    }

    /// The path of a file that the configuration names: a credential of the unit, or a file next to the configuration.
    pub(super) fn resolve(&self, path: &str) -> PathBuf {
        let credential = self.credentials.map(|directory| directory.join(path)).filter(|file| file.is_file());
        let passed =
            || self.passed.iter().find(|passed| passed.name == path).map(|passed| passed.path.clone());
        credential.or_else(passed).unwrap_or_else(|| self.base.join(path))
    }

    /// The path of a file that the gate writes: in the unit's state directory, or next to the configuration.
    pub(in crate::config) fn resolve_state(&self, path: &str) -> PathBuf {
        self.state.unwrap_or(self.base).join(path)
    }

    /// Whether it is the unit's state directory, which systemd makes before the gate starts.
    pub(super) fn is_state(&self, folder: &Path) -> bool {
        self.state == Some(folder)
    }

    /// The bytes of a file that need not be there, and is watched all the same.
    pub(super) fn if_there(&mut self, path: PathBuf) -> Option<Vec<u8>> {
        let bytes = if self.is_sealed { None } else { read_file(&path).ok() };
        self.read.push(path);
        bytes
    }

    /// The text of a file; `spot` names it.
    pub(super) fn text(&mut self, path: &str, spot: &Spot, f: &mut Findings) -> Option<Arc<SourceText>> {
        let name = self.resolve(path).display().to_string();
        let bytes = self.bytes(path, spot, f)?;
        match String::from_utf8(bytes) {
            Ok(text) => {
                Some(Arc::new(SourceText { kind: SourceKind::Referenced, name, text, dialect: &DIALECT }))
            }
            Err(_) => {
                f.error(spot, format!("cannot read `{name}`"), "it is not UTF-8");
                None
            }
        }
    }

    /// The path of a file that its caller reads, and that is watched from now on; `None` if nothing is read.
    pub(super) fn path_of(&mut self, path: &str, spot: &Spot, f: &mut Findings) -> Option<PathBuf> {
        if self.is_sealed {
            let message = format!("`{path}` was not read: the text is checked alone");
            f.warning(spot, message, "`tollgate check` on the gate's machine reads it");
            return None;
        }
        let path = self.resolve(path);
        if !self.read.contains(&path) {
            self.read.push(path.clone());
        }
        Some(path)
    }

    /// The bytes of a file that need not be UTF-8.
    pub(super) fn bytes(&mut self, path: &str, spot: &Spot, f: &mut Findings) -> Option<Vec<u8>> {
        let path = self.path_of(path, spot, f)?;
        match read_file(&path) {
            Ok(bytes) => Some(bytes),
            Err(why) => {
                f.error(spot, format!("cannot read `{}`", path.display()), why.to_string());
                None
            }
        }
    }
}

/// The bytes of a regular file of limited size.
pub(in crate::config) fn read_file(path: &Path) -> Result<Vec<u8>, ReadFileError> {
    let about = std::fs::metadata(path)?;
    if !about.is_file() {
        return Err(ReadFileError::NotRegular);
    }
    if about.len() > MAX_FILE {
        return Err(ReadFileError::TooLarge);
    }
    Ok(std::fs::read(path)?)
}

/// The messages of systems differ; these do not.
pub(in crate::config) fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => error.to_string().to_lowercase(),
    }
}
