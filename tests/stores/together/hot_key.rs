//! A client that is refused again and again costs the store next to nothing.
//!
//! The store itself counts its requests. Debt and growing waits write something for each refused attempt, but not to the
//! store, so they have the same bound as a plain limit.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::together::fleet::{Fleet, GATES, Plan};
use crate::together::load::{Load, LoadPlan};
use support::servers::memcached::Memcached;
use support::servers::mysql::MariaDb;
use support::servers::postgres::Postgres;
use support::servers::redis::Redis;
use support::{Server, installed, new_directory, started};

/// G13: a thousand refusals are no thousand questions.
#[test]
fn a_plain_limit() {
    let server = started::<Redis>();
    a_refused_key_costs_next_to_nothing(server, PLAIN);
}

#[test]
fn a_limit_with_debt() {
    let server = started::<Redis>();
    a_refused_key_costs_next_to_nothing(server, DEBT);
}

#[test]
fn a_limit_with_growing_waits() {
    let server = started::<Redis>();
    a_refused_key_costs_next_to_nothing(server, WAITS);
}

/// Two questions a second for each gate at most, and a few more about the policy, the changes of operators and the list of
/// gates.
fn a_refused_key_costs_next_to_nothing<S: Server>(mut server: S, limit: &str) {
    let fleet = Plan::patient(server.url(), limit).start();
    drain(&fleet);
    let (before, begun) = (server.questions(), Instant::now());
    let plan = LoadPlan { connections: 8, keys: 1, pause: Duration::from_millis(1) };
    let load = Load::start(fleet.addresses(), plan);
    std::thread::sleep(Duration::from_secs(4));
    let attempts = load.stop();
    let (asked, time) = (server.questions() - before, begun.elapsed());
    report::<S>(limit, attempts.len(), asked, time);
    fleet.assert_all_by_store();
    assert!(attempts.iter().all(|attempt| attempt.status == 429), "all are refused");
    assert_few(asked, time);
}

/// As many attempts as wrk and the gates can make of the machine's cores, for ten seconds.
#[test]
#[ignore = "two minutes and wrk, for benches/STORES.md"]
fn as_many_attempts_as_the_machine_gives() {
    flood::<Redis>(PLAIN);
    flood::<Memcached>(PLAIN);
    flood::<Postgres>(PLAIN);
    flood::<MariaDb>(PLAIN);
}

fn flood<S: Server>(limit: &str) {
    let mut server = started::<S>();
    let fleet = Plan::patient(server.url(), limit).start();
    drain(&fleet);
    let directory = new_directory();
    let script = directory.join("post.lua");
    std::fs::write(&script, PIPELINE).unwrap();
    let refused = |fleet: &Fleet| fleet.total("tollgate_requests_total", "code=\"429\"");
    let (before, refused_before, begun) = (server.questions(), refused(&fleet), Instant::now());
    let all: Vec<Child> =
        fleet.addresses().iter().map(|address| wrk(&script, &address.to_string())).collect();
    for generator in all {
        assert!(generator.wait_with_output().unwrap().status.success());
    }
    let (asked, time) = (server.questions() - before, begun.elapsed());
    let attempts = usize::try_from(refused(&fleet) - refused_before).unwrap();
    report::<S>(limit, attempts, asked, time);
    fleet.assert_all_by_store();
    assert_few(asked, time);
    std::fs::remove_dir_all(directory).unwrap();
}

fn wrk(script: &Path, address: &str) -> Child {
    let mut command = installed("wrk", "wrk");
    command
        .args(["-t", "1", "-c", "8", "-d", "10s", "-s"])
        .arg(script)
        .arg(format!("http://{address}/login"));
    command.stdout(Stdio::null()).spawn().unwrap()
}

/// Until every gate has been told by the store that there is nothing, and whatever begins with that has begun.
fn drain(fleet: &Fleet) {
    let plan = LoadPlan { connections: 1, keys: 1, pause: Duration::from_millis(20) };
    let load = Load::start(fleet.addresses(), plan);
    std::thread::sleep(Duration::from_secs(2));
    load.stop();
}

fn report<S: Server>(limit: &str, attempts: usize, asked: u64, time: Duration) {
    let (seconds, attempts) = (time.as_secs_f64(), f64::from(u32::try_from(attempts).unwrap()));
    let asked = f64::from(u32::try_from(asked).unwrap());
    let name = std::any::type_name::<S>().rsplit("::").next().unwrap();
    let limit = limit.lines().nth(1).unwrap_or("plain");
    let (rate, each) = (attempts / seconds, asked / seconds / f64::from(u32::try_from(GATES).unwrap()));
    eprintln!("| {name} | {limit} | {seconds:.1} | {rate:.0} | {asked} | {each:.2} |");
}

fn assert_few(asked: u64, time: Duration) {
    // One of six is of a probe, and one of its look for the marker. Every ten seconds each gate reports to the list of gates,
    // with a load and a swap, and again if another one was first.
    let gates = f64::from(u32::try_from(GATES).unwrap());
    let most = gates * (6.0 * time.as_secs_f64() + 4.0);
    assert!(f64::from(u32::try_from(asked).unwrap()) <= most, "{asked} questions in {time:?}");
}

const PLAIN: &str = "rate = \"10 per 1h\"";
const DEBT: &str = "rate = \"10 per 1h\"\ndebt = 10";
const WAITS: &str = "rate = \"10 per 1h\"\n[limit.address.escalate]\nafter = 5\nwait = \"30s\"";
/// Sixteen requests at once: on one machine with the gates it is wrk that has no time left.
const PIPELINE: &str = "
wrk.method = 'POST'
init = function(args)
  local all = {}
  for each = 1, 16 do all[each] = wrk.format() end
  pipeline = table.concat(all)
end
request = function() return pipeline end
";
