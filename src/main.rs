//! The tollgate binary: arguments, exit codes, printing.

use std::process::ExitCode;

fn main() -> ExitCode {
    tollgate::cli::main()
}
