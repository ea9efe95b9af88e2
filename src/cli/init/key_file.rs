//! A file with a key: 32 random bytes, readable by its owner alone.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::cli::output::errln;
use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Makes the file; one that exists stays, because browsers hold cookies under its key, and operators know the token.
///
/// # Errors
/// If it cannot be written.
pub(super) fn make(path: &Path) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = match opened {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            errln!("{} is there already and stays", path.display());
            return Ok(());
        }
        opened => opened.with_context(cannot)?,
    };
    file.write_all(key()?.as_bytes()).with_context(cannot)
}

fn key() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 32];
    let random = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes));
    random.context("the system gives no random numbers")?;
    Ok(STANDARD.encode(bytes) + "\n")
}
