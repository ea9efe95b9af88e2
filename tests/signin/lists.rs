//! `[lists]`: what attempts from networks pay that others publish.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use support::{Gate, Launch, Reply, Upstream, eventually, new_directory, post_with};

const TWELVE: &str = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"12 per 1h\"\n";
const LISTED: [u8; 4] = [127, 0, 3, 9];
const OTHER: [u8; 4] = [127, 0, 4, 9];

fn statuses(gate: &Gate, address: [u8; 4], attempts: usize) -> Vec<u16> {
    let mut client = gate.connect_from(Ipv4Addr::from(address));
    let mut ask = || {
        client.send(post_with("/login", ""));
        client.answer().status
    };
    (0..attempts).map(|_| ask()).collect()
}

/// How many of 14 attempts from this address pass.
fn passed(gate: &Gate, address: [u8; 4]) -> usize {
    statuses(gate, address, 14).iter().filter(|status| **status == 200).count()
}

fn launch(upstream: &Upstream, list: &str) -> Launch {
    let launch = Launch::new(&upstream.file(&format!("{TWELVE}[lists.bad]\n{list}\n")));
    launch.beside("bad.txt", "# a list\n127.0.3.0/24 ; SBL1\n")
}

#[test]
fn attempts_from_a_listed_network_cost_more_and_all_others_what_they_did() {
    let upstream = Upstream::start();
    let gate = launch(&upstream, "url = \"file:bad.txt\"\ncost = 3").start();
    assert_eq!([passed(&gate, LISTED), passed(&gate, OTHER)], [4, 12]);
}

#[test]
fn a_list_may_have_a_rate_of_its_own() {
    let upstream = Upstream::start();
    let gate = launch(&upstream, "url = \"file:bad.txt\"\nrate = \"2 per 1h\"").start();
    assert_eq!([passed(&gate, LISTED), passed(&gate, OTHER)], [2, 12]);
    let gate = launch(&upstream, "url = \"file:bad.txt\"\nrate = \"100 per 1h\"").start();
    assert_eq!(passed(&gate, LISTED), 12, "a list gives nobody more");
}

/// An account is worth as much, whoever asks for it: strangers on a list cannot use up its budget faster.
#[test]
fn limits_by_account_charge_no_more() {
    let upstream = Upstream::start();
    let tables = format!(
        "{}[limit.account]\nkey = \"user\"\nrate = \"5 per 1h\"\n[lists.bad]\nurl = \"file:bad.txt\"\ncost = 2\n",
        TWELVE.replace("login\"\n", "login\"\nuser = \"query:u\"\n")
    );
    let gate = Launch::new(&upstream.file(&tables)).beside("bad.txt", "127.0.3.0/24\n").start();
    let mut client = gate.connect_from(Ipv4Addr::from(LISTED));
    let mut ask = || {
        client.send(post_with("/login?u=anna", ""));
        client.answer().status
    };
    assert_eq!([(); 6].map(|()| ask()), [200, 200, 200, 200, 200, 429]);
}

#[test]
fn nobody_is_refused_by_a_list_alone_unless_the_file_says_so() {
    let upstream = Upstream::start();
    let gate = launch(&upstream, "url = \"file:bad.txt\"\ndeny = true").start();
    assert_eq!(statuses(&gate, LISTED, 1), [403]);
    assert_eq!(passed(&gate, OTHER), 12);
    let mut client = gate.connect_from(Ipv4Addr::from(LISTED));
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().status, 200, "what is no attempt is not refused");
    let list = "[lists.bad]\nurl = \"file:bad.txt\"\ndeny = true\n";
    let observing = format!("mode = \"observe\"\n{}{list}", upstream.file(TWELVE));
    let gate = Launch::new(&observing).beside("bad.txt", "127.0.3.0/24\n").start();
    assert_eq!(statuses(&gate, LISTED, 1), [200]);
}

#[test]
fn a_list_that_changes_counts_without_a_signal_and_a_broken_one_changes_nothing() {
    let upstream = Upstream::start();
    let gate = launch(&upstream, "url = \"file:bad.txt\"\ndeny = true").start();
    let list = gate.admin_socket().with_file_name("bad.txt");
    fs::write(&list, "127.0.4.0/24\n").unwrap();
    assert!(eventually(Duration::from_secs(30), || gate.reloads() == (1, 0)), "{}", gate.messages());
    assert_eq!([statuses(&gate, LISTED, 1), statuses(&gate, OTHER, 1)], [[200], [403]]);
    fs::write(&list, "<!DOCTYPE html>\n<p>gone</p>\n").unwrap();
    assert!(eventually(Duration::from_secs(30), || gate.reloads() == (1, 1)), "{}", gate.messages());
    assert_eq!([statuses(&gate, LISTED, 1), statuses(&gate, OTHER, 1)], [[200], [403]]);
}

/// Publishes this list, of CrowdSec's form with a key.
fn publisher(body: &'static str) -> Upstream {
    Upstream::answering(move |request, _| {
        let request = String::from_utf8_lossy(request).to_ascii_lowercase();
        let is_known = request.contains("x-api-key: secret\r\n");
        let (status, body) = if is_known { ("200 OK", body) } else { ("403 Forbidden", "{}") };
        let length = body.len();
        Reply::text_and_close(&format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}"))
    })
}

fn fetching(upstream: &Upstream, publisher: &Upstream, state: &Path) -> Launch {
    let url = publisher.line().replace("upstream = ", "url = ");
    let list = format!("{url}format = \"crowdsec\"\nkey = \"${{KEY}}\"\ndeny = true");
    let state = state.to_str().unwrap();
    launch(upstream, &list).environment("KEY", "secret").environment("STATE_DIRECTORY", state)
}

/// The sandbox is on.
#[test]
fn a_list_is_fetched_at_the_start_and_kept_over_a_restart_and_a_broken_answer() {
    let (upstream, state) = (Upstream::start(), new_directory());
    fs::create_dir_all(&state).unwrap();
    let decisions =
        r#"{"deleted":null,"new":[{"scope":"Ip","value":"127.0.3.9","type":"ban","duration":"3h"}]}"#;
    let good = publisher(decisions);
    let gate = fetching(&upstream, &good, &state).start();
    let is_denied = |gate: &Gate| statuses(gate, LISTED, 1) == [403];
    assert!(eventually(Duration::from_secs(30), || is_denied(&gate)), "{}", gate.messages());
    assert_eq!(statuses(&gate, OTHER, 1), [200]);
    drop(gate);
    let gate = fetching(&upstream, &good, &state).start();
    assert!(is_denied(&gate) && !gate.messages().contains("until it is fetched"), "{}", gate.messages());
    drop(gate);
    // Another address is asked at once.
    let broken = publisher("<!DOCTYPE html>");
    let gate = fetching(&upstream, &broken, &state).start();
    assert!(is_denied(&gate), "the list of before counts from the start");
    let is_told = || gate.messages().contains("`bad` was not fetched");
    assert!(eventually(Duration::from_secs(30), is_told), "{}", gate.messages());
    assert!(is_denied(&gate));
    assert!(!gate.messages().contains("secret"));
    let _ = fs::remove_dir_all(state);
}
