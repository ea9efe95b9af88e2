//! The tollgate binary: a thin `main`. Arguments, printing and exit codes are in `tollgate::cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tollgate::cli::main()
}
