//! Where the built program is, and where the repository is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The program that was built with the tests: `target/PROFILE/tollgate`.
pub fn binary() -> &'static Path {
    static BINARY: LazyLock<PathBuf> = LazyLock::new(|| profile().join("tollgate"));
    &BINARY
}

/// The root of the repository.
pub fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> =
        LazyLock::new(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap());
    &ROOT
}

/// A directory of this build that stays for the next run of the tests: `target/tmp`.
pub fn kept() -> PathBuf {
    profile().with_file_name("tmp")
}

/// `target/PROFILE`: a test is `target/PROFILE/deps/NAME`.
fn profile() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().to_owned()
}

/// A program that is no part of this machine's Rust, to be run.
///
/// # Panics
/// If it is missing. The message names the Debian package, or the script, that brings it.
pub fn installed(program: &str, package: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // As root has them, and not everybody.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let found = folders.map(|folder| folder.join(program)).find(|place| place.is_file());
    let found = found.unwrap_or_else(|| panic!("this test needs `{program}`, which {package} brings"));
    Command::new(found)
}

/// Compiles a file of C with these options, by the compiler that Rust's linker needs as well.
pub fn compile(options: &[&str], source: &str, to: &Path) {
    let mut compiler = installed("cc", "gcc");
    compiler.args(options).arg("-o").arg(to).arg(root().join(source)).arg("-ldl");
    assert!(compiler.status().unwrap().success(), "{source}");
}

/// Copies a program to where it will be run from.
///
/// `cp` writes the copy: a file that this process had open for writing could not be run while another of its threads starts a
/// program, which has the same files open until it begins.
pub fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}
