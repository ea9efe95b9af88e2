//! What commands print. Data goes to standard output, messages to standard error.
//!
//! If the reader has gone away (`tollgate status | head -1`), the rest is dropped, and the command ends with the status
//! that it has anyway. If a write of data fails for another reason, the command fails in the end ([`failure`]).

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

/// The first write of data that failed.
static FAILED: OnceLock<io::Error> = OnceLock::new();

/// Writes to standard output. It takes what `format!` takes.
macro_rules! out {
    ($($words:tt)*) => { $crate::cli::output::print(format_args!($($words)*)) };
}

/// Writes a line to standard output. It takes what `format!` takes.
macro_rules! outln {
    ($($words:tt)*) => { $crate::cli::output::print(format_args!("{}\n", format_args!($($words)*))) };
}

/// Writes a line to standard error. It takes what `format!` takes.
macro_rules! errln {
    ($($words:tt)*) => { $crate::cli::output::tell(format_args!("{}\n", format_args!($($words)*))) };
}

pub(in crate::cli) use {errln, out, outln};

/// Writes data to standard output.
pub(in crate::cli) fn print(text: Arguments<'_>) {
    if FAILED.get().is_some() {
        return;
    }
    let mut output = io::stdout().lock();
    if let Err(error) = output.write_fmt(text).and_then(|()| output.flush()) {
        let _ = FAILED.set(error);
    }
}

/// Writes a message to standard error. There is no other place to report that it failed.
pub(in crate::cli) fn tell(text: Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(text);
}

/// Whether nobody reads the data any more.
pub(in crate::cli) fn is_closed() -> bool {
    FAILED.get().is_some()
}

/// Why data was not written, unless its reader has gone away.
pub(super) fn failure() -> Option<&'static io::Error> {
    FAILED.get().filter(|error| error.kind() != ErrorKind::BrokenPipe)
}
