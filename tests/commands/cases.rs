//! `tollgate test` decides the cases of a file: what holds is silent, each difference is a line, and mistakes of the file are
//! shown as those of a configuration.

use std::fs;
use std::time::{Duration, Instant};

use support::{Folder, Said};

/// Ten in five minutes for each address, and a directory that nobody counts.
const FILE: &str = "listen = \"http://[::]:80\"\nupstream = \"http://127.0.0.1:81\"\n\
    [route.login]\nmatch = \"POST /login\"\nuser = \"form:name\"\n\
    failure = { status = 401 }\nsuccess = [{ status = 302, location = \"/home*\" }, { json = \"/ok\", equals = \"true\" }]\n";
const TEN: &str = "[limit.address]\nrate = \"10 per 5m\"\n";

/// What the program says of these cases, with these limits in the configuration.
fn test_with(limits: &str, cases: &str, options: &[&str]) -> Said {
    let folder = Folder::new();
    fs::write(folder.0.join("config.toml"), format!("{FILE}{limits}")).unwrap();
    fs::write(folder.0.join("cases.toml"), cases).unwrap();
    folder.run(&[&["test"], options, &["cases.toml"]].concat())
}

#[track_caller]
fn holds(limits: &str, cases: &str) {
    let said = test_with(limits, cases, &[]);
    assert_eq!((said.code, &*said.out), (Some(0), ""), "{}", said.err);
}

/// The lines of the differences.
#[track_caller]
fn differences(limits: &str, cases: &str) -> Vec<String> {
    let said = test_with(limits, cases, &[]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    said.out.lines().map(str::to_owned).collect()
}

#[test]
fn cases_share_one_clock_and_one_set_of_buckets() {
    let cases = "\
[[case]]
name    = \"ten at once\"
at      = \"0s\"
from    = \"203.0.113.7\"
request = \"POST /login\"
times   = 10
expect  = \"admit\"

[[case]]
name    = \"the next one waits for its token\"
at      = \"9s\"
from    = \"203.0.113.7\"
request = \"POST /LOGIN?again\"
expect  = \"refuse\"
by      = \"address\"
wait    = \"21s\"

[[case]]
from    = \"203.0.113.8\"
request = \"POST /login\"
expect  = \"admit\"

[[case]]
from    = \"203.0.113.7\"
request = \"GET /about\"
expect  = \"uncounted\"

[[case]]
name    = \"as told\"
at      = \"30s\"
from    = \"203.0.113.7\"
request = \"POST /login\"
expect  = \"admit\"
";
    let said = test_with(TEN, cases, &[]);
    assert_eq!((said.code, &*said.out), (Some(0), ""), "{}", said.err);
    assert_eq!(said.err, "cases.toml: 5 cases, no differences\n");
    let early = cases.replace("\"30s\"", "\"29s999ms\"");
    assert_eq!(
        differences(TEN, &early),
        ["cases.toml:28:1: as told: expected admit, got refuse by address, wait 1s"]
    );
}

#[test]
fn each_difference_is_a_line() {
    let limits = "[limit.address]\nrate = \"2 per 1h\"\n[limit.account]\nkey = \"user\"\nrate = \"4 per 1h\"\n\
                  [limit.watched]\nrate = \"1 per 1d\"\nmode = \"observe\"\n";
    let case =
        |lines: &str| format!("[[case]]\nfrom = \"203.0.113.7\"\nrequest = \"POST /login\"\n{lines}\n");
    let cases = [
        case("name = \"both\"\ntimes = 4\nexpect = \"admit\""),
        case("name = \"forms\"\nexpect = \"refuse\"\nby = \"account\"\nwait = \"1m\""),
        case("name = \"pages\"\nexpect = \"uncounted\""),
        case("name = \"others\"\nexpect = \"refuse\"").replace("113.7", "113.8"),
        case("name = \"watched\"\nexpect = \"refuse\"").replace("113.7", "113.8"),
        case("name = \"free\"\nexpect = \"admit\"").replace("POST /login", "GET /"),
        case("name = \"two hosts\"\nexpect = \"refuse\"\nhost = \"a b\""),
        case("name = \"holds\"\nexpect = \"refuse\"\nby = \"address\"\nwait = \"30m\""),
    ];
    assert_eq!(
        differences(limits, &cases.concat()),
        [
            "cases.toml:1:1: both (3 of 4): expected admit, got refuse by address, wait 30m",
            "cases.toml:7:1: forms: expected wait 1m, got 30m",
            "cases.toml:7:1: forms: expected by account, got address",
            "cases.toml:14:1: pages: expected uncounted, got refuse by address, wait 30m",
            "cases.toml:19:1: others: expected refuse, got admit",
            "cases.toml:24:1: watched: expected refuse, got admit: watched would refuse, and only observes",
            "cases.toml:29:1: free: expected admit, got uncounted",
            "cases.toml:34:1: two hosts: expected refuse, got the answer 400, because the Host header is not a host name",
        ]
    );
}

#[test]
fn the_answer_of_the_application_settles_an_attempt() {
    let limits = "[limit.address]\nrate = \"1 per 1h\"\ncount = \"failures\"\n";
    let case = |lines: &str| format!("[[case]]\nrequest = \"POST /login\"\n{lines}\n");
    let admitted = |answer: &str| case(&format!("expect = \"admit\"\n{answer}"));
    let refused = case("expect = \"refuse\"");
    for free in [
        "answer = 302\nlocation = \"/home/alice\"",
        "answer = 200\nanswer_body = '{\"ok\": true}'",
        "answer = 302\nanswer_headers = { Location = \"/home\" }",
        "answer = 302\nanswer_headers = [\"Location: /home\"]",
    ] {
        holds(limits, &[admitted(free), admitted(free)].concat());
    }
    for costly in ["answer = 401", "answer = 302\nlocation = \"/login\"\nanswer_body = \"\"", ""] {
        holds(limits, &[admitted(costly), refused.clone()].concat());
    }
}

#[test]
fn a_case_sends_headers_and_a_body_and_comes_through_a_proxy() {
    let limits = "[limit.account]\nkey = \"user\"\nrate = \"1 per 1h\"\n\
                  [limit.token]\nkey = \"header:X-Token\"\nrate = \"1 per 1h\"\n[client]\ntrust = \"10.0.0.1\"\n";
    let case = |lines: &str| format!("[[case]]\nrequest = \"POST /login\"\n{lines}\n");
    let cases = [
        case("expect = \"admit\"\nbody = \"name=alice&password=x\"\nheaders = { X-Token = \"a\" }"),
        case(
            "expect = \"refuse\"\nby = \"account\"\nbody = \"name=alice\"\nheaders = { X-Token = \"b\" }\nwait = \"1h\"",
        ),
        case("expect = \"refuse\"\nby = \"token\"\nbody = \"name=bob\"\nheaders = [\"X-Token: a\"]"),
        case("expect = \"admit\"\nbody = \"name=bob\"\nheaders = \"X-Token: c\""),
    ];
    holds(limits, &cases.concat());
    let through = |client: &str, verdict: &str| {
        let headers = format!("headers = {{ X-Forwarded-For = \"{client}\" }}");
        case(&format!("peer = \"10.0.0.1\"\n{headers}\nexpect = \"{verdict}\""))
    };
    let limits = "[limit.address]\nrate = \"1 per 1h\"\n[client]\ntrust = \"10.0.0.1\"\n";
    holds(
        limits,
        &[through("192.0.2.1", "admit"), through("192.0.2.1", "refuse"), through("192.0.2.2", "admit")]
            .concat(),
    );
}

#[test]
fn a_browser_keeps_the_cookie_of_its_owner() {
    let limits = "[limit.account]\nkey = \"user\"\nrate = \"1 per 1h\"\n\
                  [device]\nsecret = \"0123456789abcdef0123456789abcdef\"\n";
    let case = |lines: &str| format!("[[case]]\nrequest = \"POST /login\"\nbody = \"name=alice\"\n{lines}\n");
    let cases = [
        case(
            "browser = \"hers\"\nfrom = \"192.0.2.1\"\nanswer = 302\nlocation = \"/home\"\nexpect = \"admit\"",
        ),
        case("at = \"1m\"\nfrom = \"192.0.2.6\"\nanswer = 401\nexpect = \"refuse\""),
        case("browser = \"hers\"\nfrom = \"192.0.2.2\"\nanswer = 401\nexpect = \"admit\""),
    ];
    holds(limits, &cases.concat());
    let others = cases.concat().replacen("hers", "another", 1);
    assert_eq!(differences(limits, &others).len(), 1);
}

#[test]
fn what_a_list_denies_is_refused_by_no_limit() {
    let folder = Folder::new();
    let list = "[lists.drop]\nurl = \"file:drop.txt\"\nformat = \"plain\"\ndeny = true\n";
    fs::write(folder.0.join("config.toml"), format!("{FILE}{TEN}{list}")).unwrap();
    fs::write(folder.0.join("drop.txt"), "198.51.100.0/24\n").unwrap();
    let case = "[[case]]\nrequest = \"POST /login\"\nfrom = \"198.51.100.9\"\nexpect = \"refuse\"\n";
    fs::write(folder.0.join("cases.toml"), format!("{case}{case}by = \"address\"\n")).unwrap();
    let said = folder.run(&["test", "cases.toml"]);
    assert_eq!(said.out, "cases.toml:5:1: POST /login: expected by address, got no limit\n", "{}", said.err);
}

#[test]
fn every_mistake_of_a_file_of_cases_has_its_place_and_a_hint() {
    let cases = "\
[[case]]
request = \"login\"
expect  = \"admitted\"
from    = \"203.0.113\"
times   = 0

[[case]]
at      = \"2s\"
request = \"POST /login\"
expect  = \"refuse\"
by      = \"adress\"
waits   = \"1s\"

[[case]]
at      = \"1s\"
answer  = 99
headers = { \"a b\" = \"x\" }
";
    let said = test_with(TEN, cases, &[]);
    assert_eq!((said.code, &*said.out), (Some(78), ""));
    let golden = "tests/commands/cases/mistakes.txt";
    if std::env::var_os("UPDATE").is_some() {
        fs::write(golden, &said.err).unwrap();
    }
    assert_eq!(said.err, fs::read_to_string(golden).unwrap(), "UPDATE=1 rewrites it");
}

#[test]
fn a_file_without_cases_or_without_its_configuration_proves_nothing() {
    let said = test_with(TEN, "# none\n", &[]);
    assert!(said.code == Some(78) && said.err.contains("error: there is no case"), "{}", said.err);
    let said = Folder::new().run(&["test", "cases.toml"]);
    assert!(said.code == Some(78) && said.err.contains("no configuration"), "{}", said.err);
    let folder = Folder::new();
    fs::write(folder.0.join("config.toml"), format!("{FILE}{TEN}")).unwrap();
    let said = folder.run(&["test", "cases.toml"]);
    assert!(said.code == Some(78) && said.err.contains("cannot read the cases cases.toml: "), "{}", said.err);
    let said = test_with("[limit.address]\nrte = \"1 per 1h\"\n", "[[case]]\n", &[]);
    assert!(said.code == Some(78) && said.err.contains("unknown key `rte`"), "{}", said.err);
}

#[test]
fn standard_input_is_not_the_configuration_and_the_cases() {
    let folder = Folder::new();
    let input = format!("{FILE}{TEN}");
    for words in [["test", "-c", "-", "-"].as_slice(), &["policy", "push", "-", "-c", "-"]] {
        let said = folder.run_in(words, &[], &input);
        assert_eq!((said.code, &*said.out), (Some(2), ""), "{words:?}: {}", said.err);
        assert!(said.err.contains("standard input cannot be both"), "{words:?}: {}", said.err);
    }
    fs::write(folder.0.join("config.toml"), input).unwrap();
    let case = "[[case]]\nrequest = \"POST /login\"\nexpect = \"admit\"\n";
    let said = folder.run_in(&["test", "-c", "config.toml", "-"], &[], case);
    assert_eq!(said.code, Some(0), "{}", said.err);
}

#[test]
fn thirty_cases_take_less_than_a_second() {
    let case = "[[case]]\nrequest = \"POST /login\"\nfrom = \"203.0.113.7\"\nat = \"1h\"\ntimes = 10\nexpect = \"admit\"\n";
    let cases: String = (1..=30).map(|hour| case.replace("1h", &format!("{hour}h"))).collect();
    // Another program may have the processor meanwhile.
    let fastest = (0..5).map(|_| {
        let started = Instant::now();
        holds(TEN, &cases);
        started.elapsed()
    });
    assert!(fastest.min().unwrap() < Duration::from_secs(1));
}

/// Eight times as many may take twenty times as long; each with its own walk over the file took fifty times.
#[test]
fn many_cases_take_no_longer_each_than_few() {
    let case = "[[case]]\nrequest = \"POST /login\"\nfrom = \"203.0.113.7\"\nexpect = \"admit\"\n";
    let free = "[limit.address]\nrate = \"1000000 per 5m\"\n";
    let fastest = |count: usize| {
        let cases = case.repeat(count);
        let runs = (0..3).map(|_| {
            let started = Instant::now();
            holds(free, &cases);
            started.elapsed()
        });
        runs.min().unwrap()
    };
    let (few, many) = (fastest(2_500), fastest(20_000));
    assert!(many < few * 20, "{few:?}, {many:?}");
}

#[test]
fn a_configuration_that_observes_is_tested_as_it_will_enforce() {
    let folder = Folder::new();
    for options in [
        &["--preset", "wordpress", "--observe", "--device"][..],
        &["--preset", "basic"],
        &["--preset", "adminer"],
        &[],
    ] {
        let said = folder.run(&[&["init", "--force"], options].concat());
        assert_eq!(said.code, Some(0), "{}", said.err);
        let told = said.err.lines().find(|line| line.contains("tollgate test")).unwrap();
        let words: Vec<&str> = told.split("   ").next().unwrap().split_whitespace().skip(1).collect();
        let words: Vec<&str> = words.into_iter().take_while(|word| *word != "whether").collect();
        let tested = folder.run(&words);
        assert_eq!((tested.code, &*tested.out), (Some(0), ""), "{words:?}: {}", tested.err);
        assert!(tested.err.ends_with("config.test.toml: 3 cases, no differences\n"), "{}", tested.err);
        if options.contains(&"--observe") {
            assert_eq!(
                folder.run(&["test", "config.test.toml"]).code,
                Some(1),
                "observing, it refuses nothing"
            );
        }
        fs::remove_file(folder.0.join("config.test.toml")).unwrap();
    }
}

#[test]
fn init_leaves_a_file_of_cases_as_it_is() {
    let folder = Folder::new();
    fs::write(folder.0.join("gate.test.toml"), "mine").unwrap();
    let said = folder.run(&["init", "gate.toml"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("gate.test.toml is there already and stays"), "{}", said.err);
    assert_eq!(folder.read("gate.test.toml"), "mine");
    assert!(folder.read("gate.toml").contains("tollgate test gate.test.toml"));
    let said = folder.run(&["init", "-"]);
    assert!(said.code == Some(0) && !folder.0.join("config.test.toml").exists(), "{}", said.err);
}
