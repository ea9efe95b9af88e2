//! A month of a site: what guesses reach the application, and whom the gate refuses, beside what other limiters would do.
//!
//! The same sign-ins, seeded, go to models of other limiters and to the engine with files as `tollgate init` writes them.
//! Each limiter sees the month a second time without the attackers: who is refused in the first month alone was shut
//! out by strangers. The short month runs with the suite. The long one writes `month.json`, of which `scripts/why` makes
//! the plots and the table of docs/why.md: `scripts/soak month`, with `UPDATE=1` to write it.

mod attackers;
mod limiters;
mod site;
mod tally;

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use self::attackers::Attacker;
use self::limiters::{Fail2banLike, Limiter, NginxLike, Nothing, Tollgate};
use self::site::Site;
use self::tally::Tally;
use crate::signins::rules::DAY;

/// How much of a month, and how large a site.
#[derive(Debug, Clone, Copy)]
struct Scale {
    people: u64,
    days: u64,
}

const SHORT: Scale = Scale { people: 250, days: 6 };
const LONG: Scale = Scale { people: 2000, days: 30 };
const RECORD: &str = "tests/simulation/signins/month.json";
const SEED: u64 = 1;
/// Midnight of a Monday, UTC.
const START: u64 = 1_800_230_400_000_000_000;

type MakeLimiter = fn() -> Box<dyn Limiter>;

/// All limiters, by the names that the page has for them.
const LIMITERS: [(&str, MakeLimiter); 7] = [
    ("nothing", || Box::new(Nothing)),
    ("nginx-like", || Box::new(NginxLike::default())),
    ("fail2ban-like", || Box::new(Fail2banLike::default())),
    ("tollgate before", || Box::new(Tollgate::of(YESTERDAY))),
    ("tollgate", || Box::new(Tollgate::of(&limiters::written_by_init()))),
    ("tollgate, mail tells nothing", || Box::new(Tollgate::of(&limiters::without_mail_successes()))),
    ("tollgate, directory", || Box::new(Tollgate::of(&limiters::with_directory()))),
];

/// As `init` wrote it before it knew accounts, with the limit by account that the documents added.
const YESTERDAY: &str = include_str!("month/yesterday.toml");

/// The month of one limiter.
fn month(scale: Scale, make: MakeLimiter) -> Tally {
    let mut peace = Tally::default();
    run(scale, &[], &mut *make(), &mut peace);
    let mut tally = Tally::after(peace);
    run(scale, &Attacker::ALL, &mut *make(), &mut tally);
    tally
}

fn run(scale: Scale, attackers: &[Attacker], limiter: &mut dyn Limiter, tally: &mut Tally) {
    let site = Site::new(scale);
    for day in 0..scale.days {
        let mut tries = site.day(day);
        attackers.iter().for_each(|attacker| attacker.day(&site, day, &mut tries));
        tries.sort_by_key(|one| (one.at, one.client, one.account));
        for one in &tries {
            tally.count(one, day, limiter.decide(one, START + day * DAY + one.at));
        }
    }
}

fn figures(scale: Scale) -> Value {
    let months: Vec<Value> = std::thread::scope(|scope| {
        let run = |(_, make)| scope.spawn(move || month(scale, make).figures());
        let running: Vec<_> = LIMITERS.into_iter().map(run).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let names = LIMITERS.iter().map(|(name, _)| (*name).to_owned());
    let limiters: serde_json::Map<String, Value> = names.zip(months).collect();
    json!({ "seed": SEED, "people": scale.people, "days": scale.days, "limiters": limiters })
}

#[test]
fn owners_are_not_locked_out_and_guesses_are_few_with_what_init_writes() {
    let [before, now, directory] = [3, 4, 6].map(|number| month(SHORT, LIMITERS[number].1));
    println!("before: {}", before.figures());
    println!("now: {}", now.figures());
    assert!(now.sign_ins > 5_000 && now.guesses() > 5_000, "there is a month to speak of");
    assert_eq!(now.owners_locked_out.len(), 0, "{:?}", now.owners_locked_out);
    assert!(now.refused.len() as u64 * 500 <= now.sign_ins, "refused wrongly: {:?}", now.refused.len());
    assert!(now.most_at_one_account() <= 20, "{}", now.most_at_one_account());
    // An account at which another attacker tried the same password hours before costs no token again.
    assert!((9..=10).contains(&now.sprayed_before_refusal()), "{}", now.sprayed_before_refusal());
    assert!(before.most_at_one_account() > 20 && before.sprayed_before_refusal() > 10, "the month is hard");
    assert!(before.owners_locked_out.len() > 1 && before.refused.len() > now.refused.len());
    assert_eq!(
        (before.directory.locks > 10, directory.directory.locks),
        (true, 0),
        "locks of a directory behind"
    );
}

#[test]
#[ignore = "a month of 2,000 people takes minutes: scripts/soak month"]
fn the_recorded_month_is_that_of_this_gate() {
    let month = figures(LONG);
    if std::env::var_os("UPDATE").is_some() {
        let record = json!({ "commit": commit(), "month": month });
        fs::write(RECORD, serde_json::to_string_pretty(&record).unwrap() + "\n").unwrap();
    }
    let record: Value = serde_json::from_str(&fs::read_to_string(RECORD).unwrap()).unwrap();
    assert_eq!(record["month"], month, "UPDATE=1 writes it anew");
}

/// The commit that the working tree is based on.
fn commit() -> String {
    let output = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
