//! Limits a program's own calls over any store: incoming ones by who calls, outgoing ones by one bucket for all.
//!
//! ```sh
//! cargo run --example library                                          # in memory
//! cargo run --example library --features redis -- redis://127.0.0.1:6379   # two of these share the buckets
//! ```

#![allow(clippy::print_stdout, unreachable_pub, reason = "it prints, and a test calls it")]

use tollgate_bucket::{Continuous, Span, Spec};
use tollgate_store::Limits;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    run(&std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned())).await
}

/// The calls, over this store.
///
/// # Errors
/// If the store cannot be opened.
pub async fn run(store: &str) -> Result<(), Box<dyn std::error::Error>> {
    let limits = Limits::open(&store.parse()?)?;
    let incoming =
        limits.limiter("incoming", Spec::Continuous(Continuous::new(2, Span::from_secs(10), 2)?))?;
    let outgoing =
        limits.limiter("outgoing", Spec::Continuous(Continuous::new(1, Span::from_secs(1), 3)?))?;
    for caller in ["anna", "bert", "anna", "anna"] {
        let call = incoming.take(caller, 1).await?;
        println!("{caller}: {}", if call.is_admitted() { "served" } else { "too many calls" });
    }
    for number in 1..=5 {
        while let call = outgoing.take("api.example.com", 1).await?
            && !call.is_admitted()
        {
            let wait = call.wait().ok_or("the call costs more than the bucket holds")?;
            tokio::time::sleep(wait.to_std()).await;
        }
        println!("call {number} goes out");
    }
    Ok(())
}
