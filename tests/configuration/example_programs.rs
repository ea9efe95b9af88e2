//! The example programs of the crates run to their end.

#[path = "../../crates/policy/examples/charge.rs"]
mod charge;
#[path = "../../crates/store/examples/library.rs"]
#[allow(dead_code, reason = "`main` reads arguments")]
mod library;
#[path = "../../crates/bucket/examples/login.rs"]
mod login;

mod bucket {
    #[test]
    fn the_example_runs() {
        assert!(super::login::main().is_ok());
    }
}

mod policy {
    #[test]
    fn the_example_runs() {
        assert!(super::charge::main().is_ok());
    }
}

mod store {
    #[tokio::test]
    async fn the_example_runs() {
        assert!(super::library::run("memory:").await.is_ok());
    }
}
