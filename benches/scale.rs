//! A thousand gates and a hundred million clients on one store, simulated: prints the figures of `benches/SCALE.md`.
//!
//! `cargo bench --bench scale` runs it with balancers that know no clients, and with balancers that do. Nothing is
//! timed: it is a bench because it runs for a minute, and everything that it prints follows from the seed. `SEED=N`
//! takes another seed, `SAMPLE=N` simulates one subnet in N. Without `--bench`, as `cargo test` runs it, the run is
//! small.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program that prints what it found")]

#[path = "scale/simulation.rs"]
mod simulation;

use simulation::{Routing, Settings, run};

fn main() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = number("SEED").unwrap_or(1);
    let is_whole = std::env::args().any(|argument| argument == "--bench");
    for routing in [Routing::Any, Routing::Home] {
        let settings = if is_whole { Settings::whole(seed) } else { Settings::tiny(seed) };
        let sample = number("SAMPLE").unwrap_or(settings.sample);
        let settings = Settings { routing, sample, ..settings };
        let mut all = if is_whole { settings.failing() } else { vec![settings] };
        if is_whole {
            all.extend([false, true].map(|together| Settings {
                routing,
                together,
                ..Settings::million(seed)
            }));
        }
        all.iter().for_each(|settings| println!("{}", run(settings)));
    }
}
