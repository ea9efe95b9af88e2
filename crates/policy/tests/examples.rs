//! The example of this crate runs.

#[path = "../examples/charge.rs"]
mod charge;

#[test]
fn the_example_runs() {
    assert!(charge::main().is_ok());
}
