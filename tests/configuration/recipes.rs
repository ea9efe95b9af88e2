//! The files in the documents and those of `contrib`: each is one that `check` takes without a word.

use std::fs;
use std::path::PathBuf;

use tollgate::config::{Sources, load};

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
