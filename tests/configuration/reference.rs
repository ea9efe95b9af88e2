//! The pages of docs/reference are those that `scripts/reference` writes.

use std::path::Path;
use std::process::Command;

#[test]
#[allow(clippy::print_stderr, reason = "a test that is skipped says why")]
fn the_reference_in_the_documents_is_what_the_code_says() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/reference");
    let mut command = Command::new("python3");
    command.arg(script).args(["--check", "--tollgate", env!("CARGO_BIN_EXE_tollgate")]);
    let Ok(output) = command.output() else {
        assert!(std::env::var_os("REQUIRE_STORES").is_none(), "no python3");
        eprintln!("skipped: no python3");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scripts/reference writes these pages anew:\n{said}");
}
