//! Pages that a program writes or quotes are what it says today: docs/reference, docs/tuning.md
//! and docs/why.md. Sentences are short.

use std::fs;
use std::process::{Command, Output};

use support::{installed, new_directory, root};

#[test]
fn the_reference_in_the_documents_is_what_the_code_says() {
    let words = ["--check", "--tollgate", support::binary().to_str().unwrap()];
    let output = python("scripts/reference", &words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scripts/reference writes these pages anew:\n{said}");
}

#[test]
fn the_page_about_tuning_shows_what_replay_says_of_its_day() {
    let day = python("examples/tuning/day.py", &[]);
    let folder = new_directory();
    fs::write(folder.join("day.log"), day.stdout).unwrap();
    for file in ["gate.toml", "tuned.toml"] {
        fs::copy(root().join("examples/tuning").join(file), folder.join(file)).unwrap();
    }
    let replay = |words: &[&str]| {
        let mut command = Command::new(support::binary());
        command.args(["replay", "-c", "gate.toml"]).args(words).arg("day.log").current_dir(&folder);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let (report, compared) = (replay(&[]), replay(&["--compare", "tuned.toml"]));
    fs::remove_dir_all(&folder).unwrap();
    let page = fs::read_to_string(root().join("docs/tuning.md")).unwrap();
    assert!(page.contains(&format!("day.log\n{report}```")), "docs/tuning.md does not show\n{report}");
    let (_, difference) = compared.split_once("\nboth ").unwrap();
    assert!(page.contains(&format!("\nboth {difference}```")), "docs/tuning.md does not show\n{difference}");
}

#[test]
fn the_page_about_a_month_has_the_figures_that_the_simulation_wrote() {
    let output = python("scripts/why", &["--check"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_median_sentence_of_every_document_has_at_most_18_words() {
    let output = python("scripts/prose", &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// What a script prints.
fn python(script: &str, words: &[&str]) -> Output {
    installed("python3", "python3").arg(root().join(script)).args(words).output().unwrap()
}
