//! The example of this crate runs.

#[path = "../examples/login.rs"]
mod login;

#[test]
fn the_example_runs() {
    assert!(login::main().is_ok());
}
