//! `tollgate forget` over a shared store: the keys of a person are gone there, and those of others stay byte for byte.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use support::application::{ROUTE, application, form, right, sign_in_with};
use support::servers::dynamodb::Dynalite;
use support::servers::memcached::Memcached;
use support::servers::mysql::MariaDb;
use support::servers::postgres::Postgres;
use support::servers::redis::Redis;
use support::servers::{Server, Tables};
use support::{Gate, Launch, binary, eventually, started};
use tollgate::bucket::Key;
use tollgate::config::{Config, Sources, load};
use tollgate::policy::key::KeyHasher;

use crate::{migrate, table};

const NAME: &str = "zoe4711@planck.example";
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 86, 75, 65);
const OTHER_NAME: &str = "otto4712@planck.example";
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 86, 75, 66);

const LIMITS: &str = r#"
[limit.address]
rate = "3 per 1000h"
[limit.address.escalate]
after = 2
wait = "1h"
[limit.account]
key = "user"
rate = "3 per 1000h"
count = "failures"
[limit.pair]
key = "user+ip"
rate = "3 per 1000h"
[device]
addresses = true
"#;

/// The names in the store of all that is kept for this person.
fn keys(config: &Config, name: &str, address: Ipv4Addr) -> Vec<Key> {
    let hasher = KeyHasher::of_secret(config.store.names.key_secret(&[]));
    let policy = &config.policy;
    let person = policy.person([&format!("user:{name}")[..], &format!("ip:{address}")]).unwrap();
    let buckets = person.selectors().flat_map(|selector| policy.buckets_of(&selector, &hasher).buckets);
    let mut keys: Vec<Key> = buckets.map(|bucket| bucket.key).collect();
    for account in person.accounts() {
        keys.extend(policy.remembered_sets_of(account, &hasher).into_iter().map(|(_, key)| key));
    }
    keys
}

fn visit(gate: &Gate, from: Ipv4Addr, name: &str) {
    let mut client = gate.connect_from(from);
    for password in [&right(name)[..], "w1", "w2", "w3", "w4", "w5"] {
        client.send(sign_in_with("", &form(name, password)));
        client.answer();
    }
}

/// Whoever asks `value_of` for a name gets the value in the store, if there is one that is in force.
fn a_person_is_gone<S: Server>(mut server: S, value_of: impl Fn(&mut S, &str) -> Option<String>) {
    let application = application();
    let file = application.file(&format!("{ROUTE}{LIMITS}{}", table(&server)));
    migrate(&file);
    let gate = Launch::new(&file).start();
    let text = std::fs::read_to_string(gate.directory.join("gate.toml")).unwrap();
    let config = load(&Sources::from_text("gate.toml", &text)).config.unwrap();
    visit(&gate, OTHER, OTHER_NAME);
    visit(&gate, ADDRESS, NAME);
    let names = |name, address| -> Vec<String> {
        keys(&config, name, address).into_iter().map(|key| config.store.names.key(key)).collect()
    };
    let (theirs, others) = (names(NAME, ADDRESS), names(OTHER_NAME, OTHER));
    let mut values = |names: &[String]| -> Vec<Option<String>> {
        names.iter().map(|name| value_of(&mut server, name)).collect()
    };
    // Refunds come a little later.
    assert!(eventually(Duration::from_secs(10), || values(&theirs).iter().flatten().count() >= 4));
    let (mut before, mut since) = (values(&others), Instant::now());
    assert!(eventually(Duration::from_secs(20), || {
        let now = values(&others);
        if now != before {
            (before, since) = (now, Instant::now());
        }
        since.elapsed() >= Duration::from_secs(1)
    }));
    let mut command = Command::new(binary());
    command.args(["forget", &format!("user:{NAME}"), &format!("ip:{ADDRESS}"), "--socket"]);
    let output = command.arg(gate.admin_socket()).env_remove("TOLLGATE_CONFIG").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("store: buckets"), "{said}");
    let is_gone = || values(&theirs).iter().flatten().count() == 0;
    assert!(eventually(Duration::from_secs(10), is_gone), "{said}");
    assert_eq!(values(&others), before);
}

#[test]
fn redis_keeps_no_key_of_a_person_who_was_forgotten() {
    a_person_is_gone(started::<Redis>(), |server, name| {
        let value = server.cli(&["--no-raw", "GET", name]);
        (!value.contains("(nil)")).then_some(value)
    });
}

#[test]
fn memcached_keeps_no_key_of_a_person_who_was_forgotten() {
    a_person_is_gone(started::<Memcached>(), |server, name| {
        // Its size and its version; the second question ends the answer.
        let answer = server.nodes()[0].ask(format!("mg {name} s c\r\nget none\r\n").as_bytes());
        Some(answer.concat()).filter(|answer| answer != "EN")
    });
}

#[test]
fn postgres_keeps_no_row_in_force_of_a_person_who_was_forgotten() {
    a_person_is_gone(started::<Postgres>(), |server, name| {
        let key = name.rsplit(':').next().unwrap();
        let row = server.sql(&format!(
            "SELECT encode(state, 'hex') FROM tollgate_buckets WHERE encode(key, 'hex') = '{key}' AND expires_at > now()"
        ));
        (!row.is_empty()).then_some(row)
    });
}

#[test]
fn mariadb_keeps_no_row_in_force_of_a_person_who_was_forgotten() {
    a_person_is_gone(started::<MariaDb>(), |server, name| {
        let key = name.rsplit(':').next().unwrap();
        let row = server.sql(&format!(
            "SELECT HEX(state) FROM tollgate_buckets WHERE HEX(`key`) = UPPER('{key}') AND expires_at > UTC_TIMESTAMP(6)"
        ));
        (!row.is_empty()).then_some(row)
    });
}

#[test]
fn dynamodb_keeps_no_item_in_force_of_a_person_who_was_forgotten() {
    a_person_is_gone(started::<Dynalite>(), |server, name| {
        let item = server.item(name)?;
        let expires: u128 = item["expires"]["N"].as_str().unwrap().parse().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        (expires > now).then(|| item["state"]["B"].to_string())
    });
}
