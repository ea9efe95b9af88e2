//! Restarts and reloads under load: the application's count is within the limit's promise, and no client gets an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::generations::Generations;
use crate::load::Load;
use support::{Reply, Upstream, eventually, get_with, post_with};

/// With a limit whose tokens come back meanwhile.
fn run(restarts: usize, reloads: usize) {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    let upstream = Upstream::answering(move |bytes, _| {
        if bytes.starts_with(b"POST /login") {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        Reply::ok()
    });
    let file = |comment: usize| {
        upstream.file(&format!(
            "[proxy]\nclient_rate = \"off\"\n[route.login]\nmatch = \"POST /login\"\n\
             [limit.address]\nrate = \"{RATE} per 1s burst {BURST}\"\n# {comment}\n"
        ))
    };
    let gate = Generations::start(&file(0));
    let begun = Instant::now();
    let sign_in = |_| post_with("/login", "");
    let loads = [
        Load::start(3, gate.address, true, sign_in),
        Load::start(3, gate.address, false, sign_in),
        Load::start(3, gate.address, true, |_| get_with("/", "")),
        Load::start(3, gate.address, false, |_| get_with("/", "")),
    ];
    for reload in 1..=reloads {
        let before = gate.reloads();
        gate.write(&file(reload));
        gate.signal("HUP");
        assert!(eventually(Duration::from_secs(10), || gate.reloads() > before), "it is read again");
        if reload * restarts / reloads > (reload - 1) * restarts / reloads {
            assert!(gate.hand_over());
        }
    }
    let tallies = loads.map(Load::stop);
    let seconds = begun.elapsed().as_secs_f64();
    for (tally, name) in tallies.iter().zip(["kept", "new", "kept, not counted", "new, not counted"]) {
        println!(
            "{name}: {} admitted, {} refused, {} failed",
            tally.admitted,
            tally.refused,
            tally.failures.len()
        );
    }
    let reached = attempts.load(Ordering::Relaxed);
    let most = f64::from(BURST) + f64::from(RATE) * seconds;
    println!(
        "{restarts} restarts, {reloads} reloads, {seconds:.1} s: {reached} attempts reached the application, {most:.0} may"
    );
    for tally in &tallies {
        let first: Vec<_> = tally.failures.iter().take(5).collect();
        assert!(tally.failures.is_empty(), "{} failed: {first:?}", tally.failures.len());
    }
    assert!(reached as f64 <= most, "{reached} of {most}");
    assert!(reached as f64 > most / 2.0, "{reached} of {most}: the clients want more than they get");
    assert!(tallies[0].refused > 0 && tallies[1].refused > 0);
    assert!(eventually(Duration::from_secs(5), || gate.readiness().is_some_and(|(status, _)| status == 200)));
}

const RATE: u32 = 50;
const BURST: u32 = 100;

/// E20, I7: restarts in the middle of everything.
#[test]
fn twenty_restarts_and_fifty_reloads_under_load_fail_no_request_and_give_nothing_back() {
    run(20, 50);
}
