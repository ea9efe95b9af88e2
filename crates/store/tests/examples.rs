//! The example of this crate runs.

#[path = "../examples/library.rs"]
#[allow(dead_code, reason = "`main` reads arguments")]
mod library;

#[tokio::test]
async fn the_example_runs() {
    assert!(library::run("memory:").await.is_ok());
}
