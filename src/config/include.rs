//! `include`: files beside the main one, each of which describes an application.
//!
//! They are read with the main file, and again when it is; what they may say is left to [`tables`].

mod tables;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use glob::MatchOptions;

use super::check::files::{read_file, words};
use super::diagnostic::{Findings, SourceKind, SourceText, Spot};
use super::document::{Located, TomlTable};
use super::section::string;
use super::stored_policy::file_of;
use super::{MAX_FILE, Sources, overrides};

use self::tables::items;
pub(super) use self::tables::{merge, refuse_in_policy};

/// The files that `include` names, as they were read.
#[derive(Debug, Clone, Default)]
pub struct Included {
    patterns: Vec<String>,
    texts: Vec<Arc<SourceText>>,
    /// What was wrong when they were read.
    findings: Findings,
}

/// The files that hold the configuration itself.
#[derive(Debug, Clone, Default)]
pub struct OwnFiles {
    main: Option<PathBuf>,
    included: Vec<PathBuf>,
    patterns: Vec<String>,
}

impl Included {
    /// None, because the sources are to become a policy of the store, and a mistake if they name some.
    pub(super) fn none_in_policy(sources: &Sources) -> Self {
        let mut included = Self::default();
        if let Some(mut policy) = TomlTable::parse(&file_of(sources), &mut Findings::default()) {
            refuse_in_policy(&mut policy, &mut included.findings);
        }
        included
    }

    /// The texts, in the order in which they count.
    pub(super) fn texts(&self) -> impl ExactSizeIterator<Item = &str> {
        self.texts.iter().map(|source| source.text.as_str())
    }

    /// The paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.texts.iter().map(|source| PathBuf::from(&source.name))
    }
}

impl OwnFiles {
    pub(super) fn new(main: Option<PathBuf>, included: &Included) -> Self {
        Self { main, included: included.paths().collect(), patterns: included.patterns.clone() }
    }

    /// Whether [`present`](Self::present) lists directories.
    #[must_use]
    pub fn are_patterns(&self) -> bool {
        self.patterns.iter().any(|pattern| is_glob(pattern))
    }

    /// Those that were read.
    #[must_use]
    pub fn as_read(&self) -> Vec<PathBuf> {
        self.main.iter().chain(&self.included).cloned().collect()
    }

    /// Those that are there now, one without wildcards in any case.
    #[must_use]
    pub fn present(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = self.main.iter().cloned().collect();
        for path in self.patterns.iter().filter_map(|pattern| matches(pattern).ok()).flatten() {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }
}

/// Reads the files that the main file, the environment or the command line names.
pub(super) fn read(root: &TomlTable, sources: &Sources) -> Included {
    let mut reader = Reader { sources, included: Included::default(), left: MAX_FILE };
    for pattern in patterns(root, sources) {
        if reader.read_pattern(&pattern).is_none() {
            break;
        }
    }
    reader.included
}

/// The value that wins. Values of other types are reported with all other keys.
fn patterns(root: &TomlTable, sources: &Sources) -> Vec<Located<String>> {
    let mut own = TomlTable(root.get(KEY).cloned().into_iter().collect());
    let mut findings = Findings::default();
    overrides::merge_environment(&mut own, sources, &mut findings);
    overrides::merge_set(&mut own, &sources.set, &mut findings);
    let entries = own.0.into_iter().filter(|entry| entry.key.value == KEY);
    entries.flat_map(|entry| items(entry.node)).filter_map(|item| string(&item, &mut findings)).collect()
}

struct Reader<'s> {
    sources: &'s Sources,
    included: Included,
    /// Bytes that all files together may still have.
    left: u64,
}

impl Reader<'_> {
    /// `None` once there is too much to read.
    fn read_pattern(&mut self, Located { value, spot }: &Located<String>) -> Option<()> {
        if self.sources.is_sealed {
            let message = format!("`{value}` was not read: the text is checked alone");
            self.warning(spot, message, "`tollgate check` on the gate's machine reads it");
            return Some(());
        }
        let pattern = self.beside_main(value);
        match matches(&pattern) {
            Ok(paths) if paths.is_empty() => {
                self.warning(spot, format!("no file matches `{value}`"), "add one, or leave the pattern out");
            }
            Ok(paths) => {
                let unread = |path: &PathBuf| self.included.texts.iter().all(|source| *path != *source.name);
                let unread: Vec<PathBuf> = paths.into_iter().filter(unread).collect();
                unread.iter().try_for_each(|path| self.read(path, spot))?;
            }
            Err(why) => self.error(spot, format!("cannot read `{value}`"), why),
        }
        self.included.patterns.push(pattern);
        Some(())
    }

    fn beside_main(&self, pattern: &str) -> String {
        let base = self.sources.base.to_string_lossy();
        let base = if is_glob(pattern) { glob::Pattern::escape(&base) } else { base.into_owned() };
        Path::new(&base).join(pattern).to_string_lossy().into_owned()
    }

    fn read(&mut self, path: &Path, spot: &Spot) -> Option<()> {
        let name = path.display().to_string();
        let text = match self.text_of(path) {
            Ok(text) => text,
            Err(why) => {
                self.error(spot, format!("cannot read `{name}`"), why);
                return Some(());
            }
        };
        self.left = self.left.checked_sub(text.len() as u64).unwrap_or_default();
        if self.included.texts.len() == MAX_FILES || self.left == 0 {
            self.error(spot, "too much to include", "1,000 files at most, of 64 MiB in all");
            return None;
        }
        self.included.texts.push(Arc::new(SourceText { kind: SourceKind::Included, name, text }));
        Some(())
    }

    fn text_of(&self, path: &Path) -> Result<String, String> {
        if path.to_str().is_none() {
            return Err("its name is not UTF-8".into());
        }
        if self.is_main(path) {
            return Err("it is the file that includes: keep the others in a directory of their own".into());
        }
        String::from_utf8(read_file(path)?).map_err(|_| "it is not UTF-8".into())
    }

    fn is_main(&self, path: &Path) -> bool {
        let main = self.sources.path.as_deref().and_then(|main| main.canonicalize().ok());
        main.is_some() && path.canonicalize().ok() == main
    }

    fn error(&mut self, spot: &Spot, message: impl Into<String>, hint: impl Into<String>) {
        self.included.findings.error(spot, message, hint);
    }

    fn warning(&mut self, spot: &Spot, message: String, hint: &str) {
        self.included.findings.warning(spot, message, hint);
    }
}

/// The files that a pattern means, sorted. One without wildcards means its file, whether it is there or not.
fn matches(pattern: &str) -> Result<Vec<PathBuf>, String> {
    if !is_glob(pattern) {
        return Ok(vec![PathBuf::from(pattern)]);
    }
    let paths = glob::glob_with(pattern, OPTIONS).map_err(|error| error.msg.to_owned())?;
    let mut files = Vec::new();
    for path in paths.take(MAX_FILES + 1) {
        let path = path.map_err(|error| format!("`{}`: {}", error.path().display(), words(error.error())))?;
        if !path.is_dir() {
            files.push(path);
        }
    }
    Ok(files)
}

fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '['])
}

const KEY: &str = "include";
/// Names that begin with a dot belong to editors and package managers.
const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };
const MAX_FILES: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::super::load;
    use super::*;

    const MAIN: &str = "listen = \"http://[::]:80\"\nupstream = \"http://127.0.0.1:81\"\ninclude = \"*.toml\"\n\
                        [route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"1/s\"\n";

    #[test]
    fn a_text_that_is_checked_alone_reads_no_included_file() {
        let sealed = Sources { base: "tests/config/sites".into(), ..Sources::from_text("gate.toml", MAIN) };
        let loaded = load(&sealed.sealed());
        assert_eq!(loaded.config.unwrap().policy.routes.len(), 1);
        assert_eq!(loaded.diagnostics[0].message, "`*.toml` was not read: the text is checked alone");
    }

    #[test]
    fn files_without_end_are_not_read() {
        let base = std::env::temp_dir().join(format!("tollgate-include-{}", std::process::id()));
        std::fs::create_dir_all(&base).unwrap();
        (0..=MAX_FILES).for_each(|number| std::fs::write(base.join(format!("{number}.toml")), "").unwrap());
        let found =
            load(&Sources { base: base.clone(), ..Sources::from_text("gate.toml", MAIN) }).diagnostics;
        std::fs::remove_dir_all(base).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].message, "too much to include");
    }
}
