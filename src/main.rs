//! The tollgate binary: a thin `main`. Arguments, printing and exit codes are in `tollgate::cli`.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// Gives memory back when connections have gone: see `tollgate::app`'s `allocator`.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    tollgate::cli::main()
}
