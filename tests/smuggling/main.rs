//! A corpus of malformed and ambiguous requests against a running gate, and random changes of it.
//!
//! `corpus.txt` is the table from which they are made. The upstream keeps every byte, and the strict reader of `support`
//! reads it again: a request arrives there in one unambiguous form, or not at all, and the gate has counted it. A
//! refused request may arrive in part, because its body came late; then it never comes to an end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they ask the real clock"
)]

mod corpus;
mod mutation;
mod strict_agrees;
mod strict_reader;
mod world;

use std::fs;

use corpus::{Case, cases};
use world::{Seen, World};

/// A6, A7, A8, A11, A12, A13, A14, A15, A16, A17, A18, A19, A21: each oddity in each place.
#[test]
fn whatever_is_ambiguous_is_refused_or_forwarded_in_one_form() {
    let cases = cases();
    let told = fs::read_to_string("README.md").unwrap();
    let count = format!("{},{:03} malformed requests", cases.len() / 1000, cases.len() % 1000);
    assert!(told.contains(&count), "the README does not say {count}");
    let share = cases.len().div_ceil(6);
    let faults: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = cases.chunks(share).map(|some| scope.spawn(|| send(some))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), cases.len(), faults.join("\n"));
}

/// A6, A11: random changes of the corpus; `MUTATIONS` says how many, `MUTATION_SEED` which.
#[test]
fn no_change_of_the_corpus_gets_through_in_two_forms() {
    let cases = cases();
    let (many, seed) = (mutation::setting("MUTATIONS", 1500), mutation::setting("MUTATION_SEED", 1));
    std::thread::scope(|scope| {
        for worker in 0..6 {
            let cases = &cases;
            scope.spawn(move || mutation::run(cases, seed.wrapping_mul(1000) + worker, many / 6));
        }
    });
}

/// Sends these over one gate, and says what went wrong.
fn send(cases: &[Case]) -> Vec<String> {
    let world = World::new();
    let mut forwarded = 0_u32;
    let mut faults = Vec::new();
    for case in cases {
        let seen = world.send(&case.bytes);
        forwarded += u32::try_from(seen.forwarded()).unwrap();
        if let Some(fault) = fault(case, &seen) {
            faults.push(format!("{}: {fault}; sent {:?}", case.name, String::from_utf8_lossy(&case.bytes)));
        }
    }
    let counted = world.counted();
    if f64::from(forwarded) > counted {
        faults.push(format!("{forwarded} requests arrived, and {counted} were counted"));
    }
    faults
}

fn fault(case: &Case, seen: &Seen) -> Option<String> {
    if !seen.ended {
        return Some("the connection does not end".into());
    }
    let recorded = match &seen.arrived {
        Ok(recorded) => recorded,
        Err(why) => return Some(format!("arrived in two forms: {why}")),
    };
    let requests = || recorded.iter().flat_map(|recorded| &recorded.requests);
    if requests().any(|request| request.target.contains("smuggled")) {
        return Some("a stowaway arrived".into());
    }
    if seen.forwarded() != seen.answers.iter().filter(|status| **status == 200).count() {
        return Some(format!("{} arrived, and the answers are {:?}", seen.forwarded(), seen.answers));
    }
    if case.is_refused && seen.forwarded() > 0 {
        return Some(format!("arrived: {:?}", requests().collect::<Vec<_>>()));
    }
    let is_refusal = |status: &u16| (400..600).contains(status);
    (case.is_refused && !seen.answers.iter().all(is_refusal)).then(|| format!("{:?}", seen.answers))
}
