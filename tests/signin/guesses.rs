//! A guess that worked: a stranger signs in after many failures, and operator and application hear of it.

use std::fs;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::Value;

use support::application::{ROUTE, application, form, right, sign_in_with, status_from};
use support::{Gate, Reply, Upstream, eventually};

const ACCOUNT: &str =
    "[limit.account]\nkey = \"user\"\nrate = \"100 per 1h\"\ncount = \"failures\"\nmax_failures = 50\n";

fn stranger(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 3, 0, number)
}

fn guess(gate: &Gate, number: u8, password: &str) -> u16 {
    status_from(gate, stranger(number), "alice", password)
}

fn guesses_worked(gate: &Gate) -> f64 {
    gate.metric("tollgate_guesses_worked_total", "route=\"login\"")
}

/// What the application was told with each attempt, in ascending order; zero is nothing.
fn told(application: &Upstream) -> Vec<u32> {
    let requests = application.requests();
    let number = |text: String| if text.is_empty() { 0 } else { text.parse().unwrap() };
    let mut told: Vec<u32> =
        requests.iter().map(|request| number(request.all("x-tollgate-failures").concat())).collect();
    told.sort_unstable();
    told
}

#[test]
fn without_max_failures_the_application_is_told_what_the_limit_of_failures_remembers() {
    let application = application();
    let limit = "[limit.account]\nkey = \"user\"\nrate = \"1 per 1h burst 10\"\ncount = \"failures\"\n";
    let gate = Gate::start(&application.file(&format!("{ROUTE}{limit}")));
    (0..7).for_each(|number| assert_eq!(guess(&gate, number, "wrong"), 200));
    assert_eq!(guess(&gate, 7, &right("alice")), 302);
    assert_eq!(status_from(&gate, stranger(8), "bob", "wrong"), 200, "another account has no failures");
    assert_eq!(told(&application), [vec![0, 0], (1..=7).collect()].concat());
    assert!(guesses_worked(&gate) < 0.5, "only `max_failures` counts failures in a row");
}

#[test]
fn a_success_after_many_failures_is_told_to_the_application_and_to_the_operator() {
    let application = application();
    let log = "[log]\ndecisions = \"{dir}/decisions.log\"\n";
    let gate = Gate::start(&application.file(&format!("{ROUTE}{ACCOUNT}{log}")));
    (0..12).for_each(|number| assert_eq!(guess(&gate, number, "wrong"), 200));
    assert!(guesses_worked(&gate) < 0.5);
    assert_eq!(guess(&gate, 12, &right("alice")), 302);
    assert_eq!(guess(&gate, 13, &right("alice")), 302, "the row is over");
    assert_eq!(told(&application), [vec![0], (0..=12).collect()].concat());
    assert!(eventually(Duration::from_secs(5), || guesses_worked(&gate) > 0.5));
    assert!(guesses_worked(&gate) < 1.5);
    let log = gate.directory.join("decisions.log");
    let lines = || fs::read_to_string(&log).unwrap_or_default();
    assert!(eventually(Duration::from_secs(5), || lines().lines().count() >= 14));
    let of = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let worked: Vec<Value> = lines()
        .lines()
        .map(of)
        .filter(|line| line["outcome"] == "success" && line["failures"] != 0)
        .collect();
    let [worked] = &worked[..] else { panic!("{worked:?}") };
    assert_eq!((&worked["failures"], &worked["client"]), (&12.into(), &"127.3.0.12".into()));
    let messages = gate.messages();
    let account = worked["account"].as_str().unwrap();
    let message = messages.lines().find(|line| line.contains("a guess may have worked")).unwrap_or_default();
    assert!(message.contains(account) && message.contains("12"), "{messages}");
    assert_eq!(messages.matches("a guess may have worked").count(), 1, "{messages}");
}

#[test]
fn a_few_mistakes_are_no_alarm_and_neither_is_a_success_from_a_known_address() {
    let application = application();
    let known = "[device]\naddresses = true\n";
    let gate = Gate::start(&application.file(&format!("{ROUTE}{ACCOUNT}{known}")));
    assert_eq!(guess(&gate, 0, &right("alice")), 302);
    (1..5).for_each(|number| assert_eq!(guess(&gate, number, "wrong"), 200));
    assert_eq!(guess(&gate, 5, &right("alice")), 302, "after four failures");
    (10..30).for_each(|number| assert_eq!(guess(&gate, number, "wrong"), 200));
    assert_eq!(guess(&gate, 0, &right("alice")), 302, "the owner");
    assert_eq!(told(&application).last(), Some(&19), "the owner hears of none of the twenty");
    std::thread::sleep(Duration::from_millis(300));
    assert!(guesses_worked(&gate) < 0.5);
    assert!(!gate.messages().contains("a guess may have worked"));
}

#[test]
fn the_webhook_of_the_route_hears_of_it() {
    let application = application();
    let receiver = Upstream::answering(|_, _| Reply::text("HTTP/1.1 204 No Content\r\n\r\n"));
    let url = format!("http://{}/hook", receiver.address);
    let attack = format!("[route.login.attack]\nfailures = \"1000/min\"\nwebhook = \"{url}\"\n");
    let gate = Gate::start(&application.file(&format!("{ROUTE}{attack}{ACCOUNT}")));
    (0..7).for_each(|number| assert_eq!(guess(&gate, number, "wrong"), 200));
    assert_eq!(guess(&gate, 8, &right("alice")), 302);
    receiver.wait_for(1);
    let said: Value = serde_json::from_slice(&receiver.last().body).unwrap();
    assert_eq!(
        (&said["event"], &said["route"], &said["failures"]),
        (&"guess_worked".into(), &"login".into(), &7.into())
    );
    assert_eq!(said["account"].as_str().unwrap().len(), 12, "{said}");
    assert!(!said.to_string().contains("alice"));
}

/// Any client can add what `when` asks for, and have its attempts counted by an earlier route first.
#[test]
fn the_webhook_hears_of_it_where_an_earlier_route_counts_the_attempts_too() {
    let (application, receiver) =
        (application(), Upstream::answering(|_, _| Reply::text("HTTP/1.1 204 No Content\r\n\r\n")));
    let early = ROUTE.replace("[route.login]", "[route.early]\nwhen = \"header:X-Early\"");
    let attack = format!(
        "[route.login.attack]\nfailures = \"1000/min\"\nwebhook = \"http://{}/hook\"\n",
        receiver.address
    );
    let gate = Gate::start(&application.file(&format!("{early}{ROUTE}{attack}{ACCOUNT}")));
    let early_guess = |number: u8, password: &str| {
        let mut client = gate.connect_from(stranger(number));
        client.send(sign_in_with("X-Early: 1\r\n", &form("alice", password)));
        client.answer().status
    };
    (0..7).for_each(|number| assert_eq!(early_guess(number, "wrong"), 200));
    assert_eq!(early_guess(8, &right("alice")), 302);
    receiver.wait_for(1);
    let said: Value = serde_json::from_slice(&receiver.last().body).unwrap();
    assert_eq!((&said["event"], &said["route"]), (&"guess_worked".into(), &"login".into()));
}

/// C12: a client cannot tell the application of failures, in no spelling, also where nothing is counted.
#[test]
fn the_number_of_failures_is_the_gates_own() {
    let application = application();
    for tables in ["[limit.address]\nrate = \"100 per 1h\"\n", ACCOUNT] {
        let file = format!("{ROUTE}{tables}[proxy]\nunderscores = \"pass\"\n");
        let gate = Gate::start(&application.file(&file));
        for name in
            ["X-Tollgate-Failures", "x-tollgate-failures", "X_Tollgate_Failures", "X-Tollgate.Failures"]
        {
            let lines = format!("{name}: 4711\r\n");
            assert_eq!(gate.ask(sign_in_with(&lines, &form("bob", &right("bob")))).status, 302, "{name}");
        }
    }
    assert!(!application.saw("4711"));
}
