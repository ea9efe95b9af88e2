//! The mistakes of a file are told all at once: none hides another.
//!
//! Every case of `tests/config/` that is refused is put together with as many others as fit into one file, under names of
//! its own; and each alone with a mistake in every table. Whatever is told of a case is told of the whole as well.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use tollgate::config::{Sources, load};

/// A file by its tables: the path of a table, then its keys with what was written for them.
#[derive(Clone, Default)]
struct Pieces {
    tables: BTreeMap<String, BTreeMap<String, String>>,
    /// Tables in the order of the file: the first route that matches counts.
    order: Vec<String>,
    set: Vec<(String, String)>,
    environment: Vec<(String, String)>,
}

struct Case {
    name: String,
    pieces: Pieces,
    /// The names in it, and what they were.
    renamed: Vec<(String, String)>,
    mistakes: BTreeSet<String>,
}

impl Pieces {
    fn of(text: &str) -> Self {
        let mut found = Self::default();
        let (mut table, mut key, mut depth) = (String::new(), String::new(), 0);
        let mut in_text = false;
        for line in text.lines() {
            let pair =
                |rest: &str| rest.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
            found.set.extend(line.strip_prefix("#! set ").and_then(pair));
            found.environment.extend(line.strip_prefix("#! env ").and_then(pair));
            let is_new = depth == 0 && !in_text;
            if is_new && line.starts_with('[') {
                table = line.trim().to_owned();
                found.order.push(table.clone());
                found.tables.entry(table.clone()).or_default();
                continue;
            }
            if is_new && (line.trim().is_empty() || line.starts_with('#')) {
                continue;
            }
            if is_new {
                key = line.split('=').next().unwrap().trim().to_owned();
            }
            let count = |letter| i64::try_from(line.matches(letter).count()).unwrap();
            depth += count('[') - count(']');
            in_text ^= line.matches("\"\"\"").count() % 2 == 1;
            let text = found.tables.entry(table.clone()).or_default().entry(key.clone()).or_default();
            text.push_str(line);
            text.push('\n');
        }
        found
    }

    /// The paths of all keys.
    fn paths(&self) -> BTreeSet<String> {
        let of_table = |table: &str| table.trim_matches(['[', ']']).to_owned();
        let keys = self.tables.iter().flat_map(|(table, keys)| {
            keys.keys()
                .map(move |key| format!("{}.{key}", of_table(table)).trim_start_matches('.').to_owned())
        });
        let above = self.set.iter().map(|(key, _)| key.clone());
        let variables = self
            .environment
            .iter()
            .map(|(name, _)| name.trim_start_matches("TOLLGATE_").replace("__", ".").to_lowercase());
        keys.chain(above).chain(variables).collect()
    }

    /// Both in one; `None` if they say something else of the same key.
    fn with(&self, other: &Self) -> Option<Self> {
        let same = |path: &String| self.text_of(path).is_some() && self.text_of(path) == other.text_of(path);
        let (ours, theirs) = (self.paths(), other.paths());
        let below = |a: &String, b: &String| a == b || b.starts_with(&format!("{a}."));
        let clash = |a: &String| theirs.iter().any(|b| (below(a, b) || below(b, a)) && !(a == b && same(a)));
        let table = |table: &String| table.trim_matches(['[', ']']).to_owned();
        let hides = |keys: &BTreeSet<String>, tables: &[String]| {
            tables.iter().map(table).any(|table| keys.iter().any(|key| below(key, &table)))
        };
        if ours.iter().any(clash) || hides(&ours, &other.order) || hides(&theirs, &self.order) {
            return None;
        }
        let mut both = self.clone();
        for table in &other.order {
            if !both.order.contains(table) {
                both.order.push(table.clone());
            }
        }
        for (table, keys) in &other.tables {
            both.tables.entry(table.clone()).or_default().extend(keys.clone());
        }
        both.set.extend(other.set.clone());
        both.environment.extend(other.environment.clone());
        Some(both)
    }

    fn text_of(&self, path: &str) -> Option<&String> {
        self.tables.iter().find_map(|(table, keys)| {
            let table = table.trim_matches(['[', ']']);
            let key = if table.is_empty() { path } else { path.strip_prefix(table)?.strip_prefix('.')? };
            keys.get(key)
        })
    }

    /// The messages of all mistakes, and the text.
    fn mistakes(&self) -> (BTreeSet<String>, String) {
        let table = |name: &String| self.tables[name].values().map(String::as_str).collect::<String>();
        let top = self.tables.get("").map(|_| table(&String::new())).unwrap_or_default();
        let text = self.order.iter().fold(top, |text, name| format!("{text}{name}\n{}", table(name)));
        let mut sources = Sources::from_text("together.toml", &text);
        sources.base = Path::new("tests/config").to_path_buf();
        (sources.set, sources.environment) = (self.set.clone(), self.environment.clone());
        let found = load(&sources).diagnostics;
        (found.iter().filter(|found| found.is_error()).map(|found| found.message.clone()).collect(), text)
    }
}

impl Case {
    /// A case under names of its own; `None` if it is none that is refused, or is none any more under other names.
    fn read(path: &Path, number: usize) -> Option<Self> {
        let text = fs::read_to_string(path).unwrap();
        toml::de::DeTable::parse(&text).ok()?;
        let pieces = Pieces::of(&text);
        let mistakes = pieces.mistakes().0;
        let names: BTreeSet<&str> = pieces.order.iter().filter_map(|table| name_in(table)).collect();
        let renamed: Vec<_> =
            names.into_iter().map(|name| (format!("{name}x{number}x"), name.to_owned())).collect();
        let text = renamed.iter().fold(text, |text, (new, old)| replace_word(&text, old, new));
        let name = path.display().to_string();
        let case = Self { name, pieces: Pieces::of(&text), renamed, mistakes };
        let told = case.pieces.mistakes().0;
        (!case.mistakes.is_empty() && case.hidden_by(&told).is_empty()).then_some(case)
    }

    /// Its mistakes that are not among those which are told of the whole file.
    fn hidden_by(&self, told: &BTreeSet<String>) -> Vec<String> {
        let as_before = |message: &String| {
            self.renamed.iter().fold(message.clone(), |message, (new, old)| message.replace(new, old))
        };
        let told: BTreeSet<String> = told.iter().map(as_before).collect();
        // What another one brings along is missing no more.
        let is_missing = |message: &&String| {
            // A listener sees what endpoints do not.
            let is_seen = message.starts_with("no endpoint sees");
            is_seen
                || message.ends_with("is missing")
                || message.starts_with("no file tells which")
                || message.starts_with("there is no variable")
        };
        self.mistakes.difference(&told).filter(|hidden| !is_missing(hidden)).cloned().collect()
    }
}

/// The name that the writer of a file chose for a route or a limit.
fn name_in(table: &str) -> Option<&str> {
    let path = table.trim_matches(['[', ']']);
    let rest = path
        .strip_prefix("route.")
        .or_else(|| path.strip_prefix("limit."))
        .or_else(|| path.strip_prefix("endpoint."))?;
    rest.split('.').next().filter(|name| !name.contains('"'))
}

fn replace_word(text: &str, word: &str, by: &str) -> String {
    let is_letter = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-');
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let stands_alone = !before.ends_with(is_letter) && !after.starts_with(is_letter);
        replaced.push_str(before);
        replaced.push_str(if stands_alone { by } else { word });
        rest = after;
    }
    replaced + rest
}

/// All cases, read once: both tests put them together.
static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let mut paths: Vec<_> =
        fs::read_dir("tests/config").unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    paths.iter().enumerate().filter_map(|(number, path)| Case::read(path, number)).collect()
});

/// L14: one file with a mistake of every kind names them all.
#[test]
fn no_mistake_hides_another() {
    let cases = &*CASES;
    let mut groups: Vec<(Pieces, Vec<&Case>)> = Vec::new();
    for case in cases {
        let room =
            groups.iter_mut().find_map(|(whole, members)| Some((whole.with(&case.pieces)?, whole, members)));
        match room {
            Some((both, whole, members)) => {
                *whole = both;
                members.push(case);
            }
            None => groups.push((case.pieces.clone(), vec![case])),
        }
    }
    let mut hidden = Vec::new();
    for (whole, members) in &groups {
        let told = whole.mistakes().0;
        hidden.extend(members.iter().flat_map(|case| {
            case.hidden_by(&told).into_iter().map(|message| format!("{}: {message}", case.name))
        }));
    }
    assert!(hidden.is_empty(), "{} of {} files:\n{}", hidden.len(), cases.len(), hidden.join("\n"));
    let largest = groups.iter().map(|(_, members)| members.len()).max().unwrap();
    assert!(cases.len() >= 90 && largest >= 50, "{largest} of {} in one file", cases.len());
}

/// L14: what is wrong in one table is told beside what is wrong in any other.
#[test]
fn a_mistake_in_every_table_is_told_beside_any_other() {
    let base = Pieces::of(BASE);
    let canaries: Vec<_> = CANARIES
        .map(Pieces::of)
        .into_iter()
        .map(|canary| (base.with(&canary).unwrap().mistakes().0, canary))
        .collect();
    let mut hidden = Vec::new();
    for case in &*CASES {
        for (mistakes, canary) in &canaries {
            assert!(!mistakes.is_empty(), "{:?} is no mistake", canary.order);
            let Some(both) = case.pieces.with(canary) else { continue };
            let told = both.mistakes().0;
            let of_case = case.hidden_by(&told);
            hidden.extend(
                mistakes
                    .difference(&told)
                    .chain(&of_case)
                    .map(|message| format!("{}, beside {:?}: {message}", case.name, canary.order)),
            );
        }
    }
    assert!(hidden.is_empty(), "{}:\n{}", hidden.len(), hidden.join("\n"));
}

const BASE: &str = "listen = \"http://[::]:8080\"\nupstream = \"http://127.0.0.1:8081\"\n";
const CANARIES: [&str; 14] = [
    "[client]\nipv4 = 99\n",
    "[networks]\ncanary = \"canary\"\n",
    "[route.canary]\nmatch = \"POST canary\"\n",
    "[route.canary]\nmatch = \"POST /canary\"\nlimits = \"nest\"\n",
    "[route.canary]\nmatch = \"POST /canary\"\nuser = \"canary:x\"\n",
    "[route.canary]\nmatch = \"POST /canary\"\nfailure = { status = 99 }\n",
    "[limit.canary]\nrate = \"canary\"\nunit = \"users\"\ndebt = 5\n",
    "[limit.canary]\nrate = \"canary\"\nkey = \"ip\"\nmax_failures = 7\n",
    "[limit.canary]\nrate = \"1 per 1h\"\n[limit.canary.escalate]\nafter = 0\n",
    "[store]\ncapacity = 0\n",
    "[refuse]\nstatus = 99\n",
    "[proxy]\nthreads = -1\n",
    "[log]\nlevel = \"canary\"\n",
    "[tls]\nminimum = \"canary\"\n",
];
