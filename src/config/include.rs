//! `include`: files next to the main one, each of which describes an application.
//!
//! They are read with the main file, and again when it is; what they may say is left to [`tables`].

mod added;
mod tables;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use glob::{GlobError, MatchOptions, PatternError};
use tollgate_grammar::document::TomlTable;
use tollgate_grammar::table::string;
use tollgate_grammar::{Findings, Located, SourceKind, SourceText, Spot};

use super::check::files::{ReadFileError, read_file, words};
use super::secrets::DIALECT;
use super::{MAX_FILE, Sources};

use self::tables::items;
pub(super) use self::tables::{merge, refuse_in_policy};

/// The files that `include` names, as they were read.
#[derive(Debug, Clone, Default)]
pub struct Included {
    patterns: Vec<String>,
    /// Each file once, and what names it.
    files: Vec<(PathBuf, Spot)>,
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

/// Why a file is not included.
#[derive(Debug, thiserror::Error)]
enum IncludeError {
    #[error("its name is not UTF-8")]
    Name,
    #[error("this file includes itself: keep the others in a separate directory")]
    Itself,
    #[error(transparent)]
    File(#[from] ReadFileError),
    #[error("it is not UTF-8")]
    Text,
    #[error("{}", .0.msg)]
    Pattern(#[from] PatternError),
    #[error("`{}`: {}", .0.path().display(), words(.0.error()))]
    Directory(#[from] GlobError),
}

impl Included {
    /// None, because the sources are to become a policy of the store, and a mistake if they name some.
    pub(super) fn none_in_policy(sources: &Sources) -> Self {
        let mut included = Self::default();
        if let Some(mut policy) = TomlTable::parse(&sources.as_text(), &mut Findings::default()) {
            refuse_in_policy(&mut policy, &mut included.findings);
        }
        included
    }

    /// How many files there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// The texts, in the order in which they count.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|source| source.text.as_str())
    }

    fn list(&mut self, Located { value, spot }: &Located<String>, base: &Path) {
        let pattern = beside(base, value);
        match matches(&pattern) {
            Ok(paths) if paths.is_empty() => {
                let message = format!("no file matches `{value}`");
                self.findings.warning(spot, message, "add one, or leave the pattern out");
            }
            Ok(paths) => {
                let mut known: HashSet<PathBuf> = self.files.iter().map(|(path, _)| path.clone()).collect();
                let new = paths.into_iter().filter(|path| known.insert(path.clone()));
                self.files.extend(new.map(|path| (path, spot.clone())));
            }
            Err(why) => self.findings.error(spot, format!("cannot read `{value}`"), why.to_string()),
        }
        self.patterns.push(pattern);
    }

    fn read_listed(&mut self, main: Option<&Path>) {
        let (mut bytes_left, main) = (MAX_FILE, main.and_then(|main| main.canonicalize().ok()));
        for (path, spot) in &self.files {
            let name = path.display().to_string();
            let text = match text_of(path, main.as_deref()) {
                Ok(text) => text,
                Err(why) => {
                    self.findings.error(spot, format!("cannot read `{name}`"), why.to_string());
                    continue;
                }
            };
            let left = bytes_left.checked_sub(text.len() as u64);
            let Some(left) = left.filter(|_| self.texts.len() < MAX_FILES) else {
                self.findings.error(spot, "too much to include", "1,000 files at most, of 64 MiB in all");
                return;
            };
            bytes_left = left;
            self.texts.push(Arc::new(SourceText {
                kind: SourceKind::Included,
                name,
                text,
                dialect: &DIALECT,
            }));
        }
    }
}

impl OwnFiles {
    pub(super) fn new(main: Option<PathBuf>, included: &Included) -> Self {
        let paths = included.files.iter().map(|(path, _)| path.clone()).collect();
        Self { main, included: paths, patterns: included.patterns.clone() }
    }

    /// Whether [`present`](Self::present) lists directories.
    #[must_use]
    pub fn are_patterns(&self) -> bool {
        self.patterns.iter().any(|pattern| is_glob(pattern))
    }

    /// Those that there were when they were read.
    #[must_use]
    pub fn as_read(&self) -> Vec<PathBuf> {
        self.main.iter().chain(&self.included).cloned().collect()
    }

    /// Those that are there now, one without wildcards in any case.
    #[must_use]
    pub fn present(&self) -> Vec<PathBuf> {
        let matching = self.patterns.iter().filter_map(|pattern| matches(pattern).ok()).flatten();
        let mut known = HashSet::new();
        self.main.iter().cloned().chain(matching).filter(|path| known.insert(path.clone())).collect()
    }
}

/// Reads the files that the main file, the environment or the command line names.
pub(super) fn read(sources: &Sources) -> Included {
    let mut included = Included::default();
    for pattern in patterns(sources) {
        if sources.is_sealed {
            let message = format!("`{}` was not read: the text is checked alone", pattern.value);
            let hint = "`tollgate check` on the gate's machine reads it";
            included.findings.warning(&pattern.spot, message, hint);
        } else {
            included.list(&pattern, &sources.base);
        }
    }
    included.read_listed(sources.path.as_deref());
    included
}

/// The value that wins. Values of other types are reported with all other keys.
fn patterns(sources: &Sources) -> Vec<Located<String>> {
    let mut findings = Findings::default();
    let root = TomlTable::parse(&sources.as_text(), &mut findings).unwrap_or_default();
    let mut own = TomlTable(root.get(KEY).cloned().into_iter().collect());
    sources.set_keys(&mut own, &mut findings);
    let entries = own.0.into_iter().filter(|entry| entry.key.value == KEY);
    entries.flat_map(|entry| items(entry.node)).filter_map(|item| string(&item, &mut findings)).collect()
}

/// The pattern with its directory, whose own name may hold wildcards.
fn beside(base: &Path, pattern: &str) -> String {
    let base = base.to_string_lossy();
    let base = if is_glob(pattern) { glob::Pattern::escape(&base) } else { base.into_owned() };
    Path::new(&base).join(pattern).to_string_lossy().into_owned()
}

/// `main` is the canonical path of the file that includes it.
fn text_of(path: &Path, main: Option<&Path>) -> Result<String, IncludeError> {
    if path.to_str().is_none() {
        return Err(IncludeError::Name);
    }
    if main.is_some_and(|main| path.canonicalize().is_ok_and(|path| path == main)) {
        return Err(IncludeError::Itself);
    }
    String::from_utf8(read_file(path)?).map_err(|_| IncludeError::Text)
}

/// The files that a pattern means, sorted. One without wildcards means its file, whether it is there or not.
fn matches(pattern: &str) -> Result<Vec<PathBuf>, IncludeError> {
    if !is_glob(pattern) {
        return Ok(vec![PathBuf::from(pattern)]);
    }
    let paths = glob::glob_with(pattern, OPTIONS)?;
    let mut files = Vec::new();
    for path in paths.take(MAX_FILES + 1) {
        let path = path?;
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
