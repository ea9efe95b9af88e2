//! Python scripts of these tests, with the packages of `scripts/fetch-schemas`.

use std::path::Path;
use std::process::Command;

/// `python3` with this script; says what is missing.
pub(crate) fn script(name: &str) -> Result<Command, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let schemas = root.join("target/tools/schemas");
    if !schemas.is_dir() {
        return Err("scripts/fetch-schemas was not run".to_owned());
    }
    let mut command = Command::new("python3");
    command.arg(root.join("tests/contrib").join(name)).env("PYTHONPATH", schemas);
    Ok(command)
}
