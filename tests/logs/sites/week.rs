//! A week of a thousand sites: how long a report takes.
//!
//! `cargo test --profile ci --test logs a_week -- --nocapture` shows size and time. Without optimisation the log is a
//! fiftieth.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::time::Instant;

use support::Folder;
use support::dice::Dice;
use support::sites::{INCLUDE, SHARED, name, wordpress, write};
use tollgate::time::{Clock, Span};

use super::Logged;

const SITES: usize = 1_000;
const DAYS: u64 = 7;

/// Attempts a day at a site on average: two guessers in three.
const A_DAY: u64 = if cfg!(debug_assertions) { 2 } else { 100 };

/// Seconds at most; without optimisation, and next to other tests, only so that nothing is endless.
const MOST: u64 = if cfg!(debug_assertions) { 60 } else { 2 };

#[test]
fn a_week_of_a_thousand_sites_is_reported_in_two_seconds() {
    let folder = Folder::new();
    write(&folder.0, SITES, |number| wordpress(number, ([127, 0, 0, 1], 82).into()));
    let main = "listen = \"http://[::]:8080\"\nupstream = \"http://127.0.0.1:1\"\n";
    let log = "[log]\ndecisions = \"decisions.log\"\n";
    fs::write(folder.0.join("config.toml"), format!("{main}{INCLUDE}{SHARED}{log}")).unwrap();
    let attempts = write_week(&folder);
    let bytes = fs::metadata(folder.0.join("decisions.log")).unwrap().len();
    let begin = Instant::now();
    let said = folder.run(&["site", "report", "--since", "7d"]);
    let took = begin.elapsed();
    println!(
        "{attempts} attempts, {} lines, {} MB: {} ms",
        2 * attempts,
        bytes / 1_000_000,
        took.as_millis()
    );
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    let sites = said.out.lines().filter(|line| line.starts_with("site"));
    assert_eq!(sites.count(), SITES, "a line each");
    assert!(took.as_secs() < MOST, "{took:?}");
}

/// Writes the decision log; returns the number of attempts.
fn write_week(folder: &Folder) -> u64 {
    let mut dice = Dice::new(43);
    let mut file = BufWriter::new(File::create(folder.0.join("decisions.log")).unwrap());
    let attempts = SITES as u64 * DAYS * A_DAY;
    let (week, mut text) = (Span::from_secs(DAYS * 86_400 - 3_600), String::new());
    let begin = Clock::system().now().before(week);
    for number in 0..attempts {
        let site = name(usize::try_from(dice.within(0..SITES as u64)).unwrap());
        let at = begin.after(Span::from_nanos(week.as_nanos() / attempts * number));
        let (kind, client) = (dice.within(0..30), dice.within(0..20_000));
        let address = format!("198.{}.{}.{}", 18 + kind % 2, client / 250, client % 250);
        let person = format!("2001:db8:{client:x}:{kind:x}::1");
        let account = Some(dice.within(0..5_000) * 0x9E37_79B9);
        let logged =
            Logged { at, account, ..Logged::ago(0, &site, if kind < 20 { &address } else { &person }) };
        let logged = match kind {
            0..12 => logged.refused("address"),
            12..15 => logged.refused("account"),
            15..20 => logged,
            20..26 => Logged { is_owner: true, ..logged }.signed_in(),
            _ => logged.signed_in(),
        };
        text.clear();
        logged.decisions(&mut text);
        file.write_all(text.as_bytes()).unwrap();
    }
    attempts
}
