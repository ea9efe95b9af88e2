//! `[limit.NAME.rates]` through the running gate: accounts, lists of them, credentials, where an address comes from, and
//! what an attacker makes of them.

use std::net::Ipv4Addr;
use std::time::Duration;

use support::{Gate, Upstream, eventually, new_directory};

const CREDENTIAL: &str = "planted-4f1c9f0d2a";

fn sign_in(user: &str, lines: &str) -> String {
    let body = format!("user={user}&password=x");
    format!(
        "POST /login HTTP/1.1\r\nHost: app.test\r\n{lines}Content-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn file(limits: &str) -> String {
    format!("[route.login]\nmatch = \"POST /login\"\nuser = \"form:user\"\n{limits}")
}

/// How many of six attempts are admitted.
fn admitted(gate: &Gate, source: [u8; 4], request: &str) -> usize {
    let mut client = gate.connect_from(Ipv4Addr::from(source));
    let ask = |_: &i32| {
        client.send(request);
        client.answer().status == 200
    };
    (0..6).filter(ask).count()
}

#[test]
fn an_account_has_a_rate_of_its_own_in_every_spelling_and_from_everywhere() {
    let list = new_directory().join("users.txt");
    std::fs::write(&list, "\u{feff}# night jobs\nMirror\n\n  m\u{fc}ller  \n").unwrap();
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&file(&format!(
        "[limit.account]\nkey = \"user\"\nrate = \"1 per 1h\"\n[limit.account.rates]\n\"user:backup\" = \"3 per 1h\"\n\
         \"@{}\" = \"2 per 1h\"\n\"127.0.3.0/24\" = \"4 per 1h\"\n",
        list.display()
    ))));
    assert_eq!(admitted(&gate, [127, 0, 0, 5], &sign_in("BACKUP", "")), 3);
    assert_eq!(
        admitted(&gate, [127, 0, 0, 6], &sign_in("backup+", "")),
        0,
        "one bucket for all its spellings"
    );
    assert_eq!(admitted(&gate, [127, 0, 3, 5], &sign_in("mirror", "")), 2, "the account before the address");
    assert_eq!(admitted(&gate, [127, 0, 0, 5], &sign_in("M%C3%BCller", "")), 2);
    assert_eq!(admitted(&gate, [127, 0, 0, 5], &sign_in("alice", "")), 1);
    assert_eq!(admitted(&gate, [127, 0, 3, 5], &sign_in("bob", "")), 4);
    std::fs::write(&list, "Mirror\nbob2\n").unwrap();
    // One by the rate for everybody, and two more by the list, which may be read between any two attempts.
    let mut of_bob = 0;
    let is_new = || {
        of_bob += admitted(&gate, [127, 0, 0, 7], &sign_in("bob2", ""));
        of_bob > 1
    };
    assert!(eventually(Duration::from_secs(20), is_new), "the list is read again");
}

#[test]
fn a_listed_name_in_a_guess_gets_no_more_from_its_address() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&file(
        "[limit.address]\nrate = \"2 per 1h\"\n[limit.account]\nkey = \"user\"\nrate = \"1 per 1h\"\n\
         [limit.account.rates]\n\"user:backup\" = \"60 per 1h\"\n",
    )));
    assert_eq!(admitted(&gate, [127, 0, 0, 5], &sign_in("backup", "")), 2, "the address pays as ever");
    let both = sign_in("backup&user=alice", "");
    assert_eq!(admitted(&gate, [127, 0, 0, 6], &both), 1, "beside a listed name the other pays its own");
}

#[test]
fn a_credential_has_a_rate_and_is_shown_nowhere() {
    let upstream = Upstream::start();
    let secret = new_directory().join("partner.key");
    std::fs::write(&secret, "from-a-file-5c1d9a7e\n").unwrap();
    let gate = Gate::start(&upstream.file(&file(&format!(
        "[limit.address]\nrate = \"1 per 1h\"\n[limit.address.rates]\n\"header:X-Api-Key={CREDENTIAL}\" = \"3 per 1h\"\n\
         \"header:X-Api-Key=${{file:{}}}\" = \"off\"\n\"127.0.3.0/24\" = \"2 per 1h\"\n",
        secret.display()
    ))));
    let with = |value: &str| sign_in("alice", &format!("X-Api-Key: {value}\r\n"));
    assert_eq!(admitted(&gate, [127, 0, 0, 5], &with(CREDENTIAL)), 3);
    assert_eq!(admitted(&gate, [127, 0, 0, 5], &with("from-a-file-5c1d9a7e")), 6);
    assert_eq!(admitted(&gate, [127, 0, 0, 6], &with(&CREDENTIAL.to_uppercase())), 1);
    assert_eq!(admitted(&gate, [127, 0, 0, 7], &with(&CREDENTIAL[1..])), 1);
    assert_eq!(
        admitted(&gate, [127, 0, 0, 8], &sign_in("alice", &format!("X_Api_Key: {CREDENTIAL}\r\n"))),
        1
    );
    assert_eq!(admitted(&gate, [127, 0, 3, 5], &with(CREDENTIAL)), 3, "the credential before the address");
    assert_eq!(admitted(&gate, [127, 0, 3, 5], &with("junk")), 2);
    let run = |words: &[&str]| {
        let output = std::process::Command::new(support::binary()).args(words).output().unwrap();
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat()
    };
    let (config, socket) = (gate.directory.join("gate.toml"), gate.admin_socket());
    let show = ["buckets", "show", "127.0.0.5", "--socket", socket.to_str().unwrap()];
    let shown =
        [gate.metrics(), gate.messages(), run(&["check", config.to_str().unwrap()]), run(&show)].concat();
    assert!(shown.contains("header:X-Api-Key#1"), "the class is named: {shown}");
    assert!(!shown.contains(CREDENTIAL) && !shown.contains("from-a-file"), "{shown}");
}

fn geo_file(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/crates/policy/tests/geo/{name}.mmdb", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn a_network_has_its_rate_by_where_it_is_and_a_damaged_file_changes_nothing() {
    let directory = new_directory();
    let path = |name: &str| directory.join(name);
    for name in ["asn", "country"] {
        std::fs::write(path(name), geo_file(name)).unwrap();
    }
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&format!(
        "[geo]\nasn = \"{}\"\ncountry = \"{}\"\n[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"1 per 1h\"\n\
         [limit.address.rates]\n\"asn:64500\" = \"3 per 1h\"\n\"country:XX\" = \"2 per 1h\"\n\"127.0.3.9\" = \"off\"\n\
         [limit.hoster]\nkey = \"asn\"\nrate = \"5 per 1h\"\nexempt = [\"127.0.3.9\"]\n",
        path("asn").display(),
        path("country").display()
    )));
    let ask = |source: [u8; 4]| admitted(&gate, source, &sign_in("a", ""));
    assert_eq!(ask([127, 0, 3, 9]), 6, "an address before its system");
    assert_eq!(ask([127, 0, 3, 1]), 3, "the system before its country");
    assert_eq!(ask([127, 0, 3, 2]), 2, "what is left of the five of the system");
    assert_eq!(
        [ask([127, 0, 4, 1]), ask([127, 0, 4, 2])],
        [2, 2],
        "without a system each prefix pays for itself"
    );
    assert_eq!(ask([127, 0, 0, 5]), 1);
    std::fs::write(path("country"), &geo_file("country")[..900]).unwrap();
    let is_refused = || gate.metrics().contains("tollgate_config_reloads_total{result=\"refused\"} 1");
    assert!(eventually(Duration::from_secs(10), is_refused));
    assert_eq!(ask([127, 0, 4, 3]), 2, "the old file stays");
    std::fs::write(path("country"), geo_file("country")).unwrap();
    std::fs::write(path("asn"), renumbered()).unwrap();
    // Another client each time: a reload between two attempts of one would leave it with a token less.
    let mut clients = (10..=250).cycle();
    let is_renumbered = || ask([127, 0, 3, clients.next().unwrap()]) == 2;
    assert!(eventually(Duration::from_secs(10), is_renumbered), "64500 is no more");
}

/// The file of systems with another number for 64500.
fn renumbered() -> Vec<u8> {
    let mut file = geo_file("asn");
    let at = file.windows(2).position(|bytes| bytes == 64_500_u16.to_be_bytes()).unwrap();
    file[at + 1] ^= 0x80;
    file
}
