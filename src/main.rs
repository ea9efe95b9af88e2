//! The tollgate binary: a thin `main`. Arguments, printing and exit codes are in `tollgate::cli`.

use std::process::ExitCode;

/// Gives memory back when connections have gone.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tollgate_allocator::Jemalloc = tollgate_allocator::Jemalloc;

fn main() -> ExitCode {
    tollgate::cli::main()
}
