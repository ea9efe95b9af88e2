//! The files in the documents and those of `contrib`: each is one that `check` takes without a word.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tollgate::config::{Sources, load};

use support::new_directory;

/// Nothing that the text names is read: certificates of a document are nowhere.
fn mistakes(name: &str, text: &str) -> String {
    let loaded = load(&Sources::from_text(name, text).sealed());
    let was_not_read = |words: &str| words.contains("was not read");
    let found = loaded.diagnostics.iter().map(|found| found.render(false));
    found.filter(|words| !was_not_read(words)).collect()
}

#[test]
fn every_whole_file_in_the_documents_is_taken_by_check() {
    let documents = fs::read_dir("docs").unwrap().map(|entry| entry.unwrap().path());
    let documents: Vec<PathBuf> =
        documents.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    let mut files = 0;
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for block in text.split("\n```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            if block.lines().any(|line| line.starts_with("listen ")) && block.contains("[route.") {
                assert_eq!(mistakes("block", block), "", "{}:\n{block}", document.display());
                files += 1;
            }
        }
    }
    assert!(files >= 4, "{files}");
}

/// Each command runs beside the file of its section, but those that want a running gate, its log, a store or openssl.
#[test]
fn every_command_of_a_recipe_takes_its_file() {
    let recipes = fs::read_to_string("docs/recipes.md").unwrap();
    let programs = Path::new(support::binary()).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut commands = 0;
    for section in recipes.split("\n## ").skip(1) {
        let folder = new_directory();
        symlink(fs::canonicalize("examples").unwrap(), folder.join("examples")).unwrap();
        for key in ["device.keys", "store.key"] {
            fs::write(folder.join(key), KEY).unwrap();
        }
        if let Some(file) = blocks(section, "toml").first() {
            fs::write(folder.join("config.toml"), file).unwrap();
        }
        for block in blocks(section, "sh") {
            let wants_more = |line: &&str| {
                ["tollgate buckets", "site report", "--probe", "openssl"]
                    .iter()
                    .any(|word| line.contains(word))
            };
            let script = block.lines().filter(|line| !wants_more(line)).collect::<Vec<_>>().join("\n");
            let mut command = Command::new("sh");
            command.args(["-euc", &script]).current_dir(&folder).env("PATH", &path).env("DEVICE_KEYS", KEY);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{script}:\n{}", String::from_utf8_lossy(&output.stderr));
            commands += script.matches("tollgate ").count();
        }
        fs::remove_dir_all(&folder).unwrap();
    }
    assert!(commands >= 12, "{commands}");
}

/// The blocks of code in this language.
fn blocks<'t>(section: &'t str, language: &str) -> Vec<&'t str> {
    let fence = format!("\n```{language}\n");
    section.split(&fence[..]).skip(1).filter_map(|rest| rest.split("\n```").next()).collect()
}

const KEY: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn the_configurations_of_images_and_clusters_are_taken_by_check() {
    let docker = fs::read_to_string("contrib/docker/config.toml").unwrap();
    let within = |file: &str, begin: &str| {
        let text = fs::read_to_string(file).unwrap();
        let (_, rest) = text.split_once(begin).unwrap();
        let lines = rest.lines().skip(1).take_while(|line| line.is_empty() || line.starts_with("  "));
        lines.map(|line| line.trim_start_matches(' ').to_owned() + "\n").collect::<String>()
    };
    let kubernetes = within("contrib/kubernetes/tollgate.yaml", "config.toml: |");
    let helm = within("contrib/helm/tollgate/values.yaml", "\nconfig: |");
    for (name, text) in [("docker", docker), ("kubernetes", kubernetes), ("helm", helm)] {
        assert!(text.contains("[limit.address]"), "{name}: {text}");
        assert_eq!(mistakes(name, &text), "", "{name}:\n{text}");
    }
}
