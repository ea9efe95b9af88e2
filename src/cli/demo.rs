//! The pieces of `tollgate demo`: an application that cannot defend itself, the policy of the gate in front of it, and
//! an attacker who has read the form.
//!
//! All of it stays on the loopback interface. The attacker is bounded and refuses to leave it: this is a
//! demonstration, not a tool.

pub mod application;
pub mod attack;

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;

use self::attack::Tally;

/// The file of the gate of the demonstration.
///
/// Five attempts at once and one more every twelve seconds: the sixth wrong password in a row is refused, and the
/// wait is short enough to watch.
#[must_use]
pub fn config(listen: SocketAddr, application: SocketAddr) -> String {
    format!(
        "listen   = \"http://{listen}\"\n\
         upstream = \"http://{application}\"\n\
         \n\
         [route.login]\n\
         match = \"POST /login\"\n\
         \n\
         [limit.address]\n\
         rate = \"5 per 1m burst 5\"\n"
    )
}

/// Shows how the attack stands, on standard error: one line over itself on a terminal, every fiftieth elsewhere.
pub fn show(tally: &Tally) {
    let mut out = io::stderr().lock();
    // Nobody is left to tell when standard error is closed.
    let _ = if out.is_terminal() {
        write!(out, "\r{tally}  ")
    } else if tally.tried.is_multiple_of(50) {
        writeln!(out, "{tally}")
    } else {
        Ok(())
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_both_ends_as_toml() {
        let text = config(([127, 0, 0, 1], 8080).into(), "[::1]:8081".parse().unwrap());
        assert!(toml::de::DeTable::parse(&text).is_ok(), "{text}");
        assert!(text.starts_with("listen   = \"http://127.0.0.1:8080\"\nupstream = \"http://[::1]:8081\"\n"));
    }
}
