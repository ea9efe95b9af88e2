//! A password from a terminal, which does not show it, or from standard input: never from the command line, where other users
//! of the machine see it.

use std::io::{self, BufRead, IsTerminal, Read};

use anyhow::{Context, ensure};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::site::shown;
use crate::cli::output::{self, errln};

/// The password of this account: one line.
///
/// # Errors
/// If there is none, or it is too long.
pub(super) fn read(user: &str) -> anyhow::Result<String> {
    let hidden = HiddenInput::start(user);
    let mut line = String::new();
    let read = io::stdin().lock().take(MAX_LENGTH + 1).read_line(&mut line);
    drop(hidden);
    read.context("cannot read the password")?;
    let password = line.trim_end_matches(['\r', '\n']);
    ensure!(!password.is_empty(), "no password came on standard input");
    ensure!(u64::try_from(line.len()).is_ok_and(|length| length <= MAX_LENGTH), "the password is too long");
    Ok(password.to_owned())
}

/// A terminal that shows nothing of what is typed, until it is dropped.
struct HiddenInput(Option<Termios>);

impl HiddenInput {
    fn start(user: &str) -> Self {
        if !io::stdin().is_terminal() {
            return Self(None);
        }
        let before = tcgetattr(io::stdin()).ok();
        if let Some(mut silent) = before.clone() {
            silent.local_modes.remove(LocalModes::ECHO);
            let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &silent);
        }
        // Not before: people type as soon as they are asked.
        output::tell(format_args!("Password of {}: ", shown(user)));
        Self(before)
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
            errln!("");
        }
    }
}

/// Bytes, the end of the line included.
const MAX_LENGTH: u64 = 1024;
