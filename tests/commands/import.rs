//! `import` writes a configuration from a file of another program: the text of it, exit codes, and that `check` takes it.
//!
//! A case is `tests/import/PROGRAM/NAME.EXTENSION` with `NAME.toml` beside it; without one nothing is imported.
//! `UPDATE=1 cargo test --test commands` writes the expected files anew.

use std::fs;
use std::path::PathBuf;

use support::Folder;

fn cases() -> Vec<(String, PathBuf)> {
    let folders = fs::read_dir("tests/import").unwrap().map(|entry| entry.unwrap().path());
    let files = folders.flat_map(|folder| {
        let program = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        files.map(move |file| (program.clone(), file)).collect::<Vec<_>>()
    });
    let mut cases: Vec<(String, PathBuf)> =
        files.filter(|(_, file)| file.extension().is_none_or(|end| end != "toml")).collect();
    cases.sort();
    cases
}

#[test]
fn every_file_becomes_the_expected_configuration() {
    let is_update = std::env::var_os("UPDATE").is_some();
    let (mut wrong, folder) = (Vec::new(), Folder::new());
    for (program, file) in cases() {
        let name = file.file_name().unwrap().to_str().unwrap();
        fs::copy(&file, folder.0.join(name)).unwrap();
        let said = folder.run(&["import", &program, name]);
        let expected = file.with_extension("toml");
        if is_update && said.code == Some(0) {
            fs::write(&expected, &said.out).unwrap();
        }
        let code = if expected.exists() { 0 } else { 1 };
        if said.code != Some(code) || said.out != fs::read_to_string(&expected).unwrap_or_default() {
            wrong.push(format!("--- {} ({:?})\n{}{}", file.display(), said.code, said.out, said.err));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn check_finds_no_mistake_in_what_import_writes() {
    let files = cases().into_iter().map(|(_, file)| file.with_extension("toml"));
    let files: Vec<PathBuf> = files.filter(|file| file.exists()).collect();
    assert!(files.len() > 5, "{files:?}");
    for file in files {
        let folder = Folder::new();
        fs::copy(&file, folder.0.join("config.toml")).unwrap();
        let said = folder.run(&["check"]);
        assert_eq!(said.code, Some(0), "{}: {}", file.display(), said.err);
    }
}

#[test]
fn a_file_without_limits_is_a_failure_that_names_what_was_looked_for() {
    let folder = Folder::new();
    fs::write(folder.0.join("nginx.conf"), "server { listen 80; }").unwrap();
    let said = folder.run(&["import", "nginx", "nginx.conf"]);
    assert_eq!((said.code, &*said.out), (Some(1), ""));
    assert!(said.err.contains("nothing to import from nginx.conf: looked for limit_req"), "{}", said.err);
    let said = folder.run(&["import", "nginx", "missing.conf"]);
    assert_eq!(
        (said.code, &*said.err),
        (Some(1), "tollgate: cannot read missing.conf: No such file or directory (os error 2)\n")
    );
    assert_eq!(folder.run(&["import", "iptables", "nginx.conf"]).code, Some(2));
}

#[test]
fn standard_input_is_read_and_the_summary_is_a_message() {
    let text = "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s; location /in { limit_req zone=a; }";
    let said = Folder::new().run_in(&["import", "nginx", "-"], &[], text);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("[limit.a]\nrate = \"1/s\"\n"), "{}", said.out);
    assert!(said.err.starts_with("tollgate: standard input: 1 limit on 1 route; "), "{}", said.err);
}
