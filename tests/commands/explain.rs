//! What `check` and `explain` print about limits.

use support::Folder;

#[test]
fn check_says_what_all_limits_of_a_route_let_through_together() {
    let folder = Folder::new();
    assert_eq!(folder.run(&["init"]).code, Some(0));
    let said = folder.run(&["check", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(json["limits"][0]["limit"], "address");
    let login = &json["routes"][0];
    assert_eq!((&login["route"], &login["bounded"]), (&"login".into(), &false.into()));
    let bounds: Vec<_> = login["bounds"].as_array().unwrap().iter().map(|bound| &bound["at_once"]).collect();
    assert_eq!(bounds, [10, 40, 120]);
    assert_eq!(login["bounds"][1]["who"], "one /24 network (IPv6: /56)");
    assert_eq!(login["bounds"][1]["in_a_day"], 11_560);
    let ends = "nothing bounds an attacker with addresses in many /16 networks (IPv6: /48)";
    assert!(login["worst_case"].as_str().unwrap().ends_with(ends));
    assert!(folder.run(&["check"]).out.contains(ends));
}

#[test]
fn explain_says_what_a_steady_bucket_has_left_and_when_the_next_token_comes() {
    let said = Folder::new().explain("[limit.address]\nrate = \"10 per 5m\"\n", &[]);
    let expected = "limit     address: takes 1 token of 10 in a bucket of 10 that is new\n          \
                    one more every 30s; 9 left, the next in 30s\nanswer    forwarded to http://127.0.0.1:81\n";
    assert!(said.ends_with(expected), "{said}");
}

#[test]
fn explain_says_for_how_long_an_attempt_is_held() {
    let limit = "[limit.address]\nrate = \"4 per 6s\"\nwait = \"5s\"\ninitial = 0\n";
    let said = Folder::new().explain(limit, &[]);
    assert!(said.contains("takes 1 token of 0 in a bucket of 4 that is new, due in 1.5s\n"), "{said}");
    assert!(
        said.contains("one more every 1s500ms, attempts are held up to 5s; 0 left, the next in 3s\n"),
        "{said}"
    );
    assert!(said.ends_with("answer    held for 1.5s, then forwarded to http://127.0.0.1:81\n"), "{said}");
}

#[test]
fn explain_says_when_a_refused_attempt_may_come_again() {
    let said = Folder::new().explain("[limit.address]\nrate = \"10 per 5m\"\ninitial = 0\n", &[]);
    assert!(said.contains("refuses 1 token of 0 in a bucket of 10 that is new for 30s\n"), "{said}");
    assert!(said.ends_with("answer    429 Too Many Requests: try again in 30s\n"), "{said}");
}

#[test]
fn explain_says_whom_a_client_counts_as() {
    let tables =
        "[limit.address]\nrate = \"10 per 5m\"\nexempt = \"10.0.0.0/8\"\n[client]\ntrust = \"10.0.0.0/8\"\n";
    let said = |options: &[&str]| Folder::new().explain(tables, options);
    let unknown = said(&["--peer", "10.0.0.1"]);
    assert!(
        unknown.starts_with("client    10.0.0.1, a proxy that does not say who its client is"),
        "{unknown}"
    );
    assert!(unknown.contains("limit     address: takes 1 token"), "{unknown}");
    let office = said(&["--peer", "10.0.0.1", "-H", "X-Forwarded-For: 10.1.2.3"]);
    assert!(office.contains("limit     address: does not see this client"), "{office}");
    let translated = said(&["--from", "64:ff9b::203.0.113.7"]);
    assert!(translated.contains("\n  as      203.0.113.7, which it carries inside\n"), "{translated}");
    let chain = format!("X-Forwarded-For: 10.0.0.2{}", ", 10.0.0.1".repeat(40));
    let malformed = said(&["--peer", "10.0.0.1", "-H", &chain]);
    assert_eq!(malformed, "answer    400, because too many proxies have passed the request on\n");
}

#[test]
fn explain_knows_the_other_shapes() {
    let limits = "[limit.i]\nrate = \"10 per 5m\"\nrefill = \"interval\"\n\
                  [limit.r]\nrolling = \"10000 per 24h\"\nrate = \"1000 per 1h\"\n\
                  [limit.f]\nrate = \"100 per 100s\"\nfloor = \"10/s\"\n";
    let said = Folder::new().explain(limits, &[]);
    for line in [
        "full again every 5m, from the first attempt on; 9 left; the period ends in 5m",
        "at most 10000 in 24 periods of 1h, 1000 in one, from the first attempt on; 999 left, the next in 1h",
        "10 guaranteed, one more every 100ms; a pool of 100, one more every 1s; 109 left, the next in 0.1s",
    ] {
        assert!(said.contains(&format!("          {line}\n")), "{line} is not in\n{said}");
    }
}

#[test]
fn explain_says_when_a_period_of_the_clock_ends() {
    let limit = "[limit.day]\nrate = \"100 per day\"\nrefill = \"interval\"\nanchor = \"clock\"\n";
    let said = Folder::new().explain(limit, &[]);
    assert!(
        said.contains("full again every 24h, by the clock (UTC); 99 left; the period ends in "),
        "{said}"
    );
    assert!(!said.contains("ends in 1d\n"), "that would be a period that begins now: {said}");
}

#[test]
fn explain_takes_a_body() {
    let limit = "[limit.address]\nrate = \"10 per 5m\"\n";
    let said = Folder::new().explain(limit, &["--data", "user=alice&password=guess"]);
    assert!(said.ends_with("answer    forwarded to http://127.0.0.1:81\n"), "{said}");
}

#[test]
fn explain_says_which_bucket_is_too_small_for_the_attempt() {
    let folder = Folder::new();
    assert_eq!(folder.run(&["init"]).code, Some(0));
    let said = folder.run(&["explain", "--set", "route.login.cost=11", "POST", "/login"]);
    assert!(
        said.out.contains("address: refuses 11 tokens in a bucket of 10 that is new, for ever\n"),
        "{}",
        said.out
    );
    assert!(said.out.contains("address.24: takes 11 tokens of 40"), "{}", said.out);
    assert!(said.out.ends_with("refused: the attempt costs more than a bucket holds\n"), "{}", said.out);
}

#[test]
fn explain_names_each_reading_once() {
    let explain = ["explain", "-c", "examples/minimal.toml", "POST", "/x%2f..%2flogin"];
    let output = std::process::Command::new(support::binary()).args(explain).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let readings: Vec<&str> =
        text.lines().filter_map(|line| line.split_once(" /")).map(|(_, path)| path).collect();
    assert_eq!(readings, ["x%2f..%2flogin", "login", "x/../login"], "{text}");
}
