//! The way of a request that ARCHITECTURE.md describes is the one that the code takes, and stays short.

use std::fs;
use std::path::Path;

use super::source::{Source, closing};

#[test]
fn ten_functions_bring_a_request_to_the_application_and_seven_decide() {
    let lengths: Vec<usize> = ways().iter().map(Vec::len).collect();
    assert!(lengths.len() == 2 && lengths[0] <= 10 && lengths[1] <= 7, "{lengths:?}");
}

#[test]
fn each_function_of_a_way_calls_the_next_one() {
    for way in ways() {
        for pair in way.windows(2) {
            assert!(pair[0].calls(&pair[1].name), "{:?} does not call {:?}", pair[0], pair[1]);
        }
    }
}

#[test]
fn a_step_that_is_not_taken_is_found() {
    let step = Step { name: "accept".into(), module: "proxy/downstream/worker".into() };
    assert!(step.calls("serve") && !step.calls("respond"));
}

/// A function, as a list of ARCHITECTURE.md names it.
#[derive(Debug)]
struct Step {
    name: String,
    module: String,
}

/// The numbered lists of the section.
fn ways() -> Vec<Vec<Step>> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md")).unwrap();
    let section = text.split("## The way of a request\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut ways: Vec<Vec<Step>> = Vec::new();
    for line in section.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit())) {
        if line.starts_with("1. ") {
            ways.push(Vec::new());
        }
        ways.last_mut().unwrap().push(Step::of(line));
    }
    ways
}

impl Step {
    /// Reads "3. `name` in `path.rs` ...".
    fn of(line: &str) -> Self {
        let mut words = line.split('`');
        let (name, path) = (words.nth(1).unwrap(), words.nth(1).unwrap());
        let module = path.trim_start_matches("crates/").replace("/src/", "/");
        Self { name: name.into(), module: module.trim_end_matches(".rs").trim_end_matches("/lib").into() }
    }

    /// Whether a function of this name in this file calls one of that name.
    fn calls(&self, other: &str) -> bool {
        let is_its = |source: &&Source| source.module.trim_end_matches("/lib") == self.module;
        let source = Source::all().iter().find(is_its).unwrap();
        let tokens = &source.tokens;
        source.positions(&["fn", &self.name]).into_iter().any(|at| {
            let after = |from, bracket| (from..tokens.len()).find(|&at| tokens[at].text == bracket);
            let body = after(at, "(").and_then(|parameters| after(closing(tokens, parameters), "{"));
            let Some(body) = body else { return false };
            tokens[body..closing(tokens, body)]
                .windows(2)
                .any(|pair| pair[0].text == other && pair[1].text == "(")
        })
    }
}
