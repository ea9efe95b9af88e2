//! Five attempts to sign in a minute, and when the sixth may be made.

#![allow(clippy::print_stdout, unreachable_pub, reason = "it prints, and a test calls it")]

use tollgate_bucket::{Admission, Continuous, Op, Span, Spec, Time, step};

/// Runs the example.
///
/// # Errors
/// None is expected.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spec = Spec::Continuous(Continuous::new(5, Span::from_secs(60), 5)?);
    // A client that was never seen: all words are zero.
    let mut state = vec![0; spec.words()];
    let noon = Time::from_nanos(1_800_000_000_000_000_000);
    for attempt in 1..=6 {
        let now = noon.after(Span::from_secs(attempt));
        let verdict = step(&spec, &mut state, now, Op::Take(1)).verdict;
        match verdict.admission {
            Admission::Refused { wait } => println!("attempt {attempt}: come back in {:?}", wait.to_std()),
            _ => println!("attempt {attempt}: admitted, {} left", verdict.left),
        }
    }
    Ok(())
}
