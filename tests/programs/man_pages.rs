//! The man pages, as groff reads them.

use std::fs;
use std::process::Command;

use support::{binary, installed, new_directory};

#[test]
fn groff_takes_every_man_page() {
    let folder = new_directory();
    let said = Command::new(binary()).args(["man", "."]).current_dir(&folder).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let pages: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(pages.len() >= 5, "{pages:?}");
    for page in pages {
        let mut groff = installed("groff", "groff-base");
        let output = groff.args(["-man", "-Tutf8", "-ww"]).arg(&page).output().unwrap();
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && complaints.is_empty(), "{}: {complaints}", page.display());
    }
    fs::remove_dir_all(folder).unwrap();
}
