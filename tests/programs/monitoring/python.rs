//! Python scripts of these tests, with the packages of `scripts/fetch-schemas`.

use std::process::Command;

use support::{installed, root};

/// `python3` with this script.
pub(crate) fn script(name: &str) -> Command {
    let schemas = root().join("target/tools/schemas");
    assert!(schemas.is_dir(), "this test needs {}, which scripts/fetch-schemas brings", schemas.display());
    let mut command = installed("python3", "python3");
    command.arg(root().join("tests/programs/monitoring").join(name)).env("PYTHONPATH", schemas);
    command
}
