//! The example of this crate runs.

#[path = "../examples/library.rs"]
mod library;

#[test]
fn the_example_runs() {
    assert!(library::main().is_ok());
}
