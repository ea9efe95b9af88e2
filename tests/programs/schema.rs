//! The schema and `check` agree: over every sample and golden file, by a JSON Schema validator.
//!
//! A schema sees the file alone and one value at a time. So a file that it refuses has to be refused by `check`, and a
//! mistake of `check` that is about one value in the file has to be refused by the schema.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use support::{installed, new_directory, root};
use tollgate::config::{Loaded, Sources, load, schema};

#[test]
fn every_file_is_judged_alike_by_a_validator_and_by_check() {
    let files = files();
    assert!(files.len() > 150, "{}", files.len());
    let refused = refused_by_a_validator(&files);
    for (file, why) in &refused {
        let loaded = load(&sources(file));
        assert!(has_errors(&loaded), "check takes {}, the schema does not: {why}", file.display());
    }
    for file in files.iter().filter(|file| !refused.contains_key(*file)) {
        let expected = mistakes_a_schema_can_see(file, &load(&sources(file)));
        assert!(expected.is_empty(), "the schema takes {}: {expected:?}", file.display());
    }
}

/// All samples, examples and golden files that are TOML at all.
fn files() -> Vec<PathBuf> {
    let folders = ["tests/config", "contrib/docker", "examples"].map(PathBuf::from);
    let below =
        fs::read_dir("examples").unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let entries = folders.into_iter().chain(below).flat_map(|folder| fs::read_dir(folder).unwrap());
    let files = entries.map(|entry| entry.unwrap().path());
    let toml = files.filter(|file| file.extension().is_some_and(|end| end == "toml"));
    let mut toml: Vec<PathBuf> = toml.filter(|file| !is_broken(file)).collect();
    toml.push("config.toml".into());
    toml.sort();
    toml
}

fn is_broken(file: &Path) -> bool {
    toml::de::DeTable::parse(&fs::read_to_string(file).unwrap()).is_err()
}

/// The files that python's `jsonschema` refuses, each with its first reason.
fn refused_by_a_validator(files: &[PathBuf]) -> BTreeMap<PathBuf, String> {
    let folder = new_directory();
    let path = folder.join("schema.json");
    fs::write(&path, schema().to_string()).unwrap();
    let mut command = installed("python3", "python3");
    command.env("PYTHONPATH", root().join("target/tools/schemas"));
    command.arg(root().join("tests/programs/validate.py")).arg(&path).args(files);
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let needed = "this test needs python3 with tomllib and jsonschema, which scripts/fetch-schemas brings";
    assert!(output.status.success(), "{needed}");
    let refused: Value = serde_json::from_slice(&output.stdout).unwrap();
    let refused = refused.as_object().unwrap().iter();
    refused.map(|(file, why)| (file.into(), why.to_string())).collect()
}

fn has_errors(loaded: &Loaded) -> bool {
    loaded.config.is_none()
}

/// Mistakes about one value, or about a key, in the file itself.
fn mistakes_a_schema_can_see(file: &Path, loaded: &Loaded) -> Vec<String> {
    let errors =
        loaded.diagnostics.iter().filter(|found| found.is_error() && Path::new(found.file()) == file);
    let texts = errors.map(|found| found.to_json()["message"].as_str().unwrap().to_owned());
    let seen = [
        "unknown key",
        "unknown value",
        "unknown preset",
        "is not a duration",
        "is not a size",
        "is not a rate",
    ];
    let of_types = ["a string where", "an integer where", "a boolean where", "a list where", "a date where"];
    let is_seen = |text: &String| seen.iter().chain(&of_types).any(|words| text.contains(words));
    texts.filter(is_seen).collect()
}

/// A file with the settings and the environment that it names in its comments.
fn sources(file: &Path) -> Sources {
    let mut sources = Sources::from_file(file).unwrap();
    for line in sources.text.clone().lines() {
        let pair = |rest: &str| rest.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        if let Some(rest) = line.strip_prefix("#! set ") {
            sources.set.extend(pair(rest));
        } else if let Some(rest) = line.strip_prefix("#! env ") {
            sources.environment.extend(pair(rest));
        }
    }
    sources
}
