//! People: arguments, exit codes, printing.

pub mod demo;
