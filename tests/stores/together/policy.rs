//! A policy that is pushed while four gates work: all follow within two seconds, no request fails, no bucket is refilled.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::together::fleet::GATES;
use crate::together::load::{Load, LoadPlan};
use support::servers::redis::Redis;
use support::{Gate, Launch, Server, Upstream, binary, eventually, new_directory, started};

const KEYS: usize = 8;
/// Tokens of each key.
const BURST: usize = 20;

fn policy(upstream: &Upstream, rate: &str) -> String {
    upstream.file(&format!("[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"{rate}\"\n"))
}

fn push(url: &str, text: &str) {
    let directory = new_directory();
    let file = directory.join("policy.toml");
    fs::write(&file, text).unwrap();
    let mut command = Command::new(binary());
    command
        .args(["policy", "push", "--no-wait"])
        .arg(&file)
        .current_dir(&directory)
        .env_remove("TOLLGATE_CONFIG");
    let output = command.env("TOLLGATE_STORE__URL", url).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let _ = fs::remove_dir_all(&directory);
}

/// The hash of the policy in force.
fn hash(gate: &Gate) -> String {
    let mut command = Command::new(binary());
    command.args(["status", "--format", "json", "--socket"]).arg(gate.admin_socket());
    let status: serde_json::Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    status["policy"]["hash"].as_str().unwrap().to_owned()
}

#[test]
fn a_policy_pushed_under_load_reaches_all_gates_and_refills_no_bucket() {
    let server = started::<Redis>();
    let upstream = Upstream::start();
    push(&server.url(), &policy(&upstream, &format!("{BURST} per 10h")));
    let file = format!(
        "policy = \"store\"\n[store]\nurl = \"{}\"\ntimeout = \"2s\"\n[proxy]\nthreads = 1\n",
        server.url()
    );
    let gates: Vec<Gate> = (0..GATES).map(|_| Launch::new(&file).start()).collect();
    let before = hash(&gates[0]);
    let plan = LoadPlan { connections: KEYS, keys: KEYS, pause: Duration::from_millis(20) };
    let load = Load::start(gates.iter().map(|gate| gate.address).collect(), plan);
    // Until the buckets are empty, at all gates.
    let refuses = |gate: &Gate| gate.metric("tollgate_decisions_total", "decision=\"refuse\"") > 20.0;
    assert!(eventually(Duration::from_secs(20), || gates.iter().all(refuses)));
    push(&server.url(), &policy(&upstream, &format!("{BURST} per 9h")));
    let pushed = Instant::now();
    let follows = |gate: &Gate| gate.metric("tollgate_policy_version", "") == 2.0;
    assert!(eventually(Duration::from_secs(10), || gates.iter().all(follows)));
    let took = pushed.elapsed();
    std::thread::sleep(Duration::from_millis(700));
    let attempts = load.stop();
    let hashes: Vec<String> = gates.iter().map(hash).collect();
    assert!(hashes.iter().all(|hash| *hash == hashes[0] && *hash != before), "{hashes:?}");

    let count = |status: u16| attempts.iter().filter(|attempt| attempt.status == status).count();
    let (admitted, refused) = (count(200), count(429));
    eprintln!(
        "{} attempts, {admitted} admitted, {refused} refused; all gates follow after {took:?}",
        attempts.len()
    );
    assert_eq!(admitted + refused, attempts.len(), "no request fails");
    assert!(refused > 0);
    for key in 0..KEYS {
        let of_key = attempts.iter().filter(|attempt| attempt.key == key && attempt.status == 200).count();
        assert!((BURST..=BURST + 1).contains(&of_key), "key {key}: {of_key} admitted");
    }
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(gates.iter().all(|gate| gate.metric("tollgate_store_fallbacks_total", "") == 0.0));
}
