//! What the examples and the README say is what the program accepts.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "these are tests, by the real clock")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tollgate::config::{Sources, load};

#[test]
fn every_example_loads_without_a_word() {
    let folders = ["", "/origins", "/stores", "/tuning", "/two-gates-one-redis"]
        .map(|folder| format!("examples{folder}"));
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 18, "{files:?}");
    files.push("config.toml".into());
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "toml")) {
        let keys = ("DEVICE_KEYS".into(), "0123456789abcdef0123456789abcdef".into());
        let loaded = load(&Sources::from_file(file).unwrap().with_environment(std::iter::once(keys)));
        let said: String = loaded.diagnostics.iter().map(|found| found.render(false)).collect();
        assert!(loaded.config.is_some() && said.is_empty(), "{}:\n{said}", file.display());
    }
}

#[test]
fn the_file_in_the_readme_is_the_smallest_example_byte_for_byte() {
    let readme = readme();
    let (_, rest) = readme.split_once("\n```toml\n").unwrap();
    let (block, _) = rest.split_once("```\n").unwrap();
    assert_eq!(block, fs::read_to_string("examples/minimal.toml").unwrap());
}

#[test]
fn every_command_in_the_readme_exists() {
    let named = commands(&readme());
    for expected in ["check", "demo", "explain", "run"] {
        assert!(named.contains(expected), "{expected} is not among {named:?}");
    }
    for command in &named {
        let help = Command::new(support::binary()).args([command, "--help"]).output().unwrap();
        assert!(help.status.success(), "tollgate {command}");
    }
}

#[test]
fn what_the_documents_show_of_the_smallest_example_is_what_the_program_says() {
    let shown = [
        ("docs/getting-started.md", &["check"][..]),
        ("docs/getting-started.md", &["explain", "POST", "//LOGIN"]),
        ("docs/getting-started.md", &["explain", "GET", "/login"]),
        ("docs/matching.md", &["explain", "POST", "/x/../LOGIN;a"]),
    ];
    for (document, words) in shown {
        let mut command = Command::new(support::binary());
        command.arg(words[0]).args(["-c", "examples/minimal.toml"]).args(&words[1..]);
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert!(fs::read_to_string(document).unwrap().contains(&said), "{document} does not show\n{said}");
    }
}

/// A sentence in snake case.
fn readme() -> String {
    fs::read_to_string("README.md").unwrap()
}

/// The words that follow the program's name in code: after a prompt, a backtick, at the start of a line of a block, or
/// cargo's `--`.
fn commands(text: &str) -> BTreeSet<String> {
    let after = ["$ tollgate ", "`tollgate ", "cargo run --release -- "];
    let words = after.iter().flat_map(|front| text.split(front).skip(1));
    let blocks = text.split("```sh").skip(1).filter_map(|rest| rest.split("```").next());
    let words = words.chain(blocks.flat_map(|block| block.split("\ntollgate ").skip(1)));
    let words = words.map(|rest| rest.chars().take_while(|letter| letter.is_ascii_lowercase()).collect());
    words.filter(|word: &String| !word.is_empty()).collect()
}
