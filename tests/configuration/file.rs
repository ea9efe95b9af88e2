//! The file as its writers meet it: every mistake by its exact words, every sample by its every line.
//!
//! A case is `tests/config/NAME.toml` with `NAME.txt` beside it: what `check` has to say. Comments in the first
//! lines may add to the sources: `#! set KEY=VALUE` and `#! env NAME=VALUE`. `UPDATE=1 cargo test --test configuration`
//! writes the expected texts anew; read the difference before you keep it.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::HeaderName;
use proptest::prelude::*;
use tollgate::bucket::{Continuous, Distinct, Escalation, Floor, Interval, PeriodStart, Rolling, Span, Spec};
use tollgate::config::{Loaded, Sources, combined, load, worst_cases};
use tollgate::policy::OwnerCookie;
use tollgate::policy::outcome::{Outcome, OutcomeRule};
use tollgate::policy::response::{Glob, JsonPointer, Statuses};
use tollgate::policy::{Cost, Limit, LimitKind, Mode, Unit};
use toml::de::{DeTable, DeValue};

#[test]
fn every_mistake_is_reported_in_these_words() {
    let update = std::env::var_os("UPDATE").is_some();
    let mut wrong = Vec::new();
    for file in cases() {
        let said = words(&load(&sources(&file)));
        let expected = file.with_extension("txt");
        if update {
            fs::write(&expected, &said).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != said {
            wrong.push(format!("--- {}\n{said}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "these cases say something else now:\n{}", wrong.join("\n"));
}

#[test]
fn there_are_many_different_mistakes() {
    let texts = cases().into_iter().map(|file| words(&load(&sources(&file))));
    let heads = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let mut mistakes: Vec<String> = heads.filter(|line| line.starts_with("error: ")).collect();
    mistakes.sort();
    mistakes.dedup();
    assert!(mistakes.len() >= 45, "only {}", mistakes.len());
}

#[test]
fn every_expected_text_belongs_to_a_case() {
    for file in files("tests/config", "txt") {
        let named = file.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("-list"));
        assert!(named || file.with_extension("toml").exists(), "{}", file.display());
    }
}

#[test]
fn diagnostics_are_sorted_by_line() {
    for file in cases() {
        let name = file.display().to_string();
        let found = load(&sources(&file)).diagnostics;
        let lines = found.iter().filter(|found| found.file() == name);
        let lines: Vec<u64> = lines.map(|found| found.to_json()["line"].as_u64().unwrap_or(0)).collect();
        assert!(lines.is_sorted(), "{name}: {lines:?}");
    }
}

#[test]
fn the_sample_works_as_it_stands() {
    let loaded = load(&Sources::from_file(Path::new("config.toml")).unwrap());
    assert_eq!(words(&loaded), SAMPLE_SAYS);
    let config = loaded.config.unwrap();
    assert_eq!(config.front.listen[0].to_string(), "http://[::]:8080");
    assert_eq!(config.upstreams[0][0].to_string(), "http://127.0.0.1:8081");
    assert_eq!(config.policy.routes[0].limits, [0, 1]);
    assert_eq!(config.store.capacity, 1_000_000);
}

#[test]
fn the_sample_works_with_every_line_of_it() {
    let text = full_sample();
    let loaded = load(&Sources::from_text("config.toml", &text));
    // `on_error` wants a shared store, and `snapshot` wants none; there is no directory `sites`, and no list was fetched.
    // Attempts are counted.
    let known = [
        "`direction` means nothing without unit = \"bytes\"",
        "`on_error` means nothing in memory",
        "no file matches `sites/*.toml`",
        "list `drop` is empty until it is fetched",
        "a restart forgets failures that the directory still counts",
    ];
    let mut others = loaded.diagnostics.iter().filter(|found| !known.contains(&&*found.message));
    assert!(others.next().is_none(), "{}", words(&loaded));
    assert!(loaded.config.is_some());
}

#[test]
fn the_sample_shows_the_true_defaults() {
    let plain = load(&Sources::from_file(Path::new("config.toml")).unwrap()).config.unwrap();
    let full = full_sample();
    let mut full = load(&Sources::from_text("config.toml", &full)).config.unwrap();
    assert!(full.refuse.of_routes[0].as_ref() == Some(&full.refuse.pages));
    full.refuse.of_routes.clone_from(&plain.refuse.of_routes);
    full.proxy.forwarding.truncate(1);
    assert_eq!(format!("{:?}", plain.refuse), format!("{:?}", full.refuse));
    assert_eq!((plain.proxy, plain.log, plain.store), (full.proxy, full.log, full.store));
    assert_eq!(plain.client.header, full.client.header);
    assert_eq!(plain.client.prefixes, full.client.prefixes);
    assert_eq!(plain.policy.limits[0].spec, full.policy.limits[0].spec);
    let Spec::Continuous(bucket) = plain.policy.limits[0].spec else { panic!("a continuous limit") };
    assert_eq!(bucket.hold(), Span::ZERO);
    assert_eq!(plain.policy.limits[0].mode, full.policy.limits[0].mode);
    assert_eq!(plain.policy.routes[0].matching.case, full.policy.routes[0].matching.case);
    assert_eq!(plain.policy.routes[0].reading.cost, full.policy.routes[0].reading.cost);
}

#[test]
fn routes_and_limits_are_joined_as_the_file_says() {
    let config = load(&sources(Path::new("tests/config/valid-full.toml"))).config.unwrap();
    let [intranet, blog] = &config.policy.routes[..] else { panic!("two routes") };
    assert_eq!((&*intranet.name, &*blog.name), ("intranet", "blog"));
    assert_eq!((&intranet.limits[..], &blog.limits[..]), (&[0, 1][..], &[0, 1, 2][..]));
    assert_eq!((intranet.upstream, blog.upstream), (Some(1), Some(1)), "one group for one list of addresses");
    assert_eq!((config.upstreams.len(), config.upstreams[0].len()), (2, 2));
    assert_eq!((&intranet.reading.cost, &blog.reading.cost), (&Cost::Fixed(2), &Cost::Fixed(1)));
}

#[test]
fn rules_about_answers_become_what_the_file_says() {
    let config = load(&sources(Path::new("tests/config/valid-outcome.toml"))).config.unwrap();
    let [lists, single, tables, none] = &config.policy.routes[..] else { panic!("four routes") };
    let status = |codes: &[RangeInclusive<u16>]| Some(codes.iter().cloned().collect::<Statuses>());
    let name = |name: &'static str| HeaderName::from_static(name);
    let pointer = |text: &str| JsonPointer::new(text).unwrap();
    let rule = OutcomeRule::default;
    assert_eq!(
        lists.rules.success,
        [
            OutcomeRule { status: status(&[302..=302]), location: Some(Glob::new("/home*")), ..rule() },
            OutcomeRule { set_cookie: Some(Glob::new("SESSION")), ..rule() },
            OutcomeRule { json: Some((pointer("/token"), None)), ..rule() },
        ]
    );
    let header = Some((name("x-login"), Some("failed".to_owned())));
    assert_eq!(
        lists.rules.failure,
        [
            OutcomeRule { status: status(&[401..=401, 400..=499]), header, ..rule() },
            OutcomeRule { location: Some(Glob::new("*error*")), ..rule() },
            OutcomeRule { body: Some("Login failed".into()), ..rule() },
            OutcomeRule { json: Some((pointer("/ok"), Some("false".into()))), ..rule() },
        ]
    );
    assert_eq!(
        lists.rules.neutral,
        [
            OutcomeRule {
                status: status(&[206..=206, 304..=304, 500..=599]),
                header: Some((name("x-proxy"), None)),
                ..rule()
            },
            OutcomeRule { status: status(&[502..=502, 503..=503, 504..=504]), ..rule() },
        ]
    );
    let home = Some(Glob::new("/home*"));
    assert_eq!(
        single.rules.success,
        [OutcomeRule { status: status(&[302..=302]), location: home, ..rule() }]
    );
    assert_eq!(
        tables.rules.failure,
        [
            OutcomeRule { status: status(&[401..=401]), ..rule() },
            OutcomeRule { header: Some((name("www-authenticate"), None)), ..rule() },
        ]
    );
    let rest = [lists, single, tables, none].map(|route| route.rules.otherwise);
    assert_eq!(rest, [Outcome::Neutral, Outcome::Failure, Outcome::Success, Outcome::Neutral]);
}

#[test]
fn limits_become_what_the_file_says() {
    let config = load(&sources(Path::new("tests/config/valid-full.toml"))).config.unwrap();
    let [address, subnet, agents] = &config.policy.limits[..] else { panic!("three limits") };
    let Spec::Continuous(bucket) = address.spec else { panic!("{:?}", address.spec) };
    assert_eq!((bucket.burst(), bucket.initial(), bucket.debt()), (10, 5, 10));
    assert_eq!(bucket.per_token(), Span::from_secs(30));
    assert_eq!((address.prefixes.ipv4, address.prefixes.ipv6), (32, 56), "as [client] says");
    assert_eq!((subnet.prefixes.ipv4, subnet.prefixes.ipv6), (24, 48));
    assert_eq!((subnet.mode, agents.mode), (Mode::Observe, Mode::Off));
    assert!(address.exempt.contains("203.0.113.9".parse().unwrap()), "by the name of a network");
    let class = |ip: &str| {
        address.rates.of_address(ip.parse().unwrap()).map(|rate| (&*rate.class, rate.spec.is_some()))
    };
    assert_eq!(class("10.9.9.9"), Some(("10.0.0.0/8", true)));
    assert_eq!(class("198.51.100.7"), Some(("abusers", true)), "out of a file");
    assert_eq!(class("192.0.2.200"), Some(("192.0.2.200", false)));
    assert_eq!(class("192.0.2.201"), None);
}

#[test]
fn shapes_become_what_the_file_says() {
    let limits = |name: &str| {
        let file = format!("tests/config/valid-{name}.toml");
        load(&sources(Path::new(&file))).config.unwrap().policy.limits
    };
    let seconds = Span::from_secs;
    let of = |limit: &Limit, ip: &str| limit.rates.of_address(ip.parse().unwrap()).unwrap().spec.unwrap();

    let interval = |quota, period, anchor| Interval::new(quota, period, anchor).unwrap();
    let [address, daily] = &limits("interval")[..] else { panic!("two limits") };
    let expected =
        interval(10, seconds(300), PeriodStart::First).with_initial(5).unwrap().with_debt(10).unwrap();
    assert_eq!(address.spec, Spec::Interval(expected));
    let smaller =
        interval(3, seconds(3600), PeriodStart::First).with_initial(3).unwrap().with_debt(10).unwrap();
    assert_eq!(of(address, "192.0.2.1"), Spec::Interval(smaller), "the start balance is cut to the bucket");
    assert_eq!(daily.spec, Spec::Interval(interval(100, seconds(86_400), PeriodStart::Clock)));

    let rolling = |quota, anchor| Rolling::new(quota, seconds(86_400), seconds(3600), anchor).unwrap();
    let [address, both, fine] = &limits("rolling")[..] else { panic!("three limits") };
    let extras = |rolling: Rolling| Spec::Rolling(rolling.with_initial(50).unwrap().with_debt(100).unwrap());
    assert_eq!(address.spec, extras(rolling(10_000, PeriodStart::Clock)));
    assert_eq!(of(address, "10.0.0.1"), extras(rolling(20_000, PeriodStart::Clock)), "another quota");
    let slower = rolling(10_000, PeriodStart::Clock).with_rate(500).unwrap();
    assert_eq!(of(address, "192.0.2.1"), extras(slower), "a rate where the limit has none");
    let with_rate = |quota, rate| Spec::Rolling(rolling(quota, PeriodStart::First).with_rate(rate).unwrap());
    assert_eq!(both.spec, with_rate(10_000, 1000), "the rate says how long a period is");
    assert_eq!(of(both, "10.0.0.1"), with_rate(20_000, 1000));
    assert_eq!(of(both, "192.0.2.1"), with_rate(10_000, 500));
    let Spec::Rolling(fine) = fine.spec else { panic!("{:?}", fine.spec) };
    assert_eq!((fine.slots(), fine.period()), (30, seconds(90)));

    let [address, subnet] = &limits("floor")[..] else { panic!("two limits") };
    let bucket = |count, period, burst| Continuous::new(count, seconds(period), burst).unwrap();
    let pool = |count| bucket(count, 100, count).with_initial(50).unwrap().with_debt(10).unwrap();
    let floor = |pool| Spec::Floor(Floor::new(bucket(10, 1, 10), pool).unwrap());
    assert_eq!(address.spec, floor(pool(100)));
    assert_eq!(of(address, "10.0.0.1"), floor(pool(1000)), "the entry is the pool, the floor stays");
    let wider = Floor::new(bucket(10, 1, 20), bucket(100, 100, 200)).unwrap();
    assert_eq!(subnet.spec, Spec::Floor(wider));

    let [address] = &limits("wait")[..] else { panic!("one limit") };
    let held = |bucket: Continuous| Spec::Continuous(bucket.with_hold(seconds(5)).unwrap());
    assert_eq!(address.spec, held(bucket(10, 20, 10)));
    assert_eq!(of(address, "10.0.0.1"), held(bucket(60, 60, 60)));
}

#[test]
fn waits_that_grow_stand_behind_their_limit_for_the_same_clients_and_routes() {
    let config = load(&sources(Path::new("tests/config/valid-escalate.toml"))).config.unwrap();
    let found: Vec<_> = config.policy.limits.iter().map(|limit| (&*limit.name, limit.kind)).collect();
    let (rate, waits) = (LimitKind::Rate, LimitKind::Escalation);
    let expected =
        [("first", rate), ("address", rate), ("address", waits), ("accounts", rate), ("accounts", waits)];
    assert_eq!(found, [&expected[..], &[("last", rate)]].concat());
    assert_eq!(config.policy.routes[0].limits, [0, 1, 2, 3, 4, 5]);
    assert_eq!(config.policy.routes[1].limits, [0, 1, 2, 3, 4], "`last` is narrowed to the other");
    let [_, address, defaults, accounts, waits, _] = &config.policy.limits[..] else { panic!("six") };
    let seconds = Span::from_secs;
    let of = |after, wait, factor, max| {
        Spec::Escalation(Escalation::new(after, seconds(wait), factor, seconds(max)).unwrap())
    };
    assert_eq!(defaults.spec, of(5, 30, 2, 3600));
    assert_eq!((waits.spec, waits.mode, waits.unit), (of(3, 60, 10, 86_400), accounts.mode, Unit::Attempts));
    assert_eq!((&defaults.key, defaults.prefixes), (&address.key, address.prefixes));
    let class =
        |ip: &str| defaults.rates.of_address(ip.parse().unwrap()).map(|rate| (&*rate.class, rate.spec));
    assert_eq!(class("203.0.113.9"), Some(("office", None)), "off for the rate, off for the waits");
    assert_eq!(
        class("10.1.2.3"),
        Some(("10.0.0.0/8", Some(of(5, 30, 2, 3600)))),
        "another rate, the same waits"
    );
    assert_eq!(class("192.0.2.1"), None);
}

#[test]
fn a_limit_that_counts_things_once_does_so_at_every_rate() {
    let config = load(&sources(Path::new("tests/config/valid-escalate.toml"))).config.unwrap();
    let [.., accounts, _, last] = &config.policy.limits[..] else { panic!("several limits") };
    let bucket = |count, burst| Continuous::new(count, Span::from_secs(600), burst).unwrap();
    let users =
        |bucket: Continuous| Spec::Distinct(Distinct::new(bucket.with_initial(3).unwrap(), None).unwrap());
    assert_eq!((accounts.unit, accounts.spec), (Unit::Users, users(bucket(5, 8))));
    let office = accounts.rates.of_address("203.0.113.9".parse().unwrap()).unwrap();
    assert_eq!(office.spec, Some(users(bucket(50, 50))));
    let passwords = Distinct::new(Continuous::new(30, Span::from_secs(300), 30).unwrap(), Some(200)).unwrap();
    assert_eq!((last.unit, last.spec), (Unit::Passwords, Spec::Distinct(passwords)));
}

#[test]
fn the_other_tables_become_what_the_file_says() {
    let config = load(&sources(Path::new("tests/config/valid-full.toml"))).config.unwrap();
    assert!(config.client.trust_unix && config.client.trust.contains("2001:db8:42::7".parse().unwrap()));
    assert_eq!(
        (config.store.capacity, config.refuse.status.as_u16(), config.refuse.jitter_permille),
        (50_000, 503, 250)
    );
    assert!(config.refuse.pages.html.is_some() && config.refuse.pages.json.is_none());
    assert_eq!((config.proxy.threads, config.proxy.client_rate), (2, None));
    assert_eq!((config.front.listen.len(), config.operators.admin.len()), (2, 2));
}

#[test]
fn an_unknown_key_in_any_table_of_any_sample_is_refused() {
    let mut tables = 0;
    for file in samples() {
        let sources = sources(&file);
        let activated = Sources { text: activated(&sources.text), ..sources.clone() };
        for sample in [sources, activated] {
            if load(&sample).config.is_none() {
                continue;
            }
            for (line, text) in mutations(&sample.text) {
                let loaded = load(&Sources { text, ..sample.clone() });
                assert!(loaded.config.is_none(), "{} accepts `{INTRUDER}` after line {line}", file.display());
                tables += 1;
            }
        }
    }
    assert!(tables > 40, "only {tables} tables were tried");
}

#[test]
fn an_unknown_key_by_environment_or_command_line_is_refused() {
    let sample = Sources::from_file(Path::new("config.toml")).unwrap();
    let tables = [
        "",
        "client.",
        "networks.",
        "route.",
        "route.login.",
        "limit.",
        "limit.address.",
        "limit.address.rates.",
        "device.",
        "store.",
        "refuse.",
        "proxy.",
        "log.",
        "admin.",
    ];
    for table in tables {
        let set = sample.clone().with_set([(format!("{table}intruder"), "1".to_owned())]);
        assert!(load(&set).config.is_none(), "--set {table}intruder");
        let name = format!("TOLLGATE_{}INTRUDER", table.replace('.', "__").to_uppercase());
        let variables = [(name.clone().into(), "1".into())].into_iter();
        // A variable of no table may belong to another program.
        let is_refused = load(&sample.clone().with_environment(variables)).config.is_none();
        assert_eq!(is_refused, !table.is_empty(), "{name}");
    }
}

#[test]
fn command_line_wins_over_environment_wins_over_file() {
    let sample = Sources::from_file(Path::new("config.toml")).unwrap();
    let capacity = |sources: &Sources| load(sources).config.unwrap().store.capacity;
    let variables = [("TOLLGATE_STORE__CAPACITY".into(), "7".into()), ("TOLLGATE_CONFIG".into(), "x".into())];
    let by_environment = sample.with_environment(variables.into_iter());
    assert_eq!(capacity(&by_environment), 7);
    let by_both = by_environment.with_set([("store.capacity".to_owned(), "8".to_owned())]);
    assert_eq!(capacity(&by_both), 8);
}

#[test]
fn files_that_were_read_are_named_for_the_next_reload() {
    let config = load(&sources(Path::new("tests/config/valid-full.toml"))).config.unwrap();
    let names: Vec<_> = config.process.files.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    assert_eq!(names, ["abusers-list.txt", "page.html"]);
}

#[test]
fn device_cookies_are_made_under_the_keys_that_the_file_names() {
    let devices = |name: &str| {
        let file = format!("tests/config/{name}.toml");
        load(&sources(Path::new(&file))).config.unwrap().policy.owner_cookie
    };
    let with = |keys: &[&str], days: u64, cookie| -> Option<Arc<dyn OwnerCookie>> {
        let smallest = fs::read_to_string("tests/config/valid-smallest.toml").unwrap();
        let secret = keys.join("\\n");
        let text = format!(
            "{smallest}\n[device]\nsecret = \"{secret}\"\nttl = \"{days}d\"\ncookie = \"{cookie}\"\n"
        );
        load(&Sources::from_text("with", &text)).config.unwrap().policy.owner_cookie
    };
    let key = "planted-planted-planted-planted-planted";
    let both = [format!("{key}-2"), format!("{key}-1")];
    assert_eq!(devices("valid-device"), with(&both.each_ref().map(String::as_str), 400, "known-here"));
    assert_eq!(devices("valid-device-variable"), with(&[key], 180, "tollgate_device"));
    assert_eq!(devices("valid-device-environment"), with(&["1".repeat(32).as_str()], 180, "tollgate_device"));
    assert_eq!(devices("device-off"), None);
    assert_eq!(devices("valid-smallest"), None);
    let files = load(&sources(Path::new("tests/config/valid-device.toml"))).config.unwrap().process.files;
    assert!(files[0].ends_with("device-keys-list.txt"), "a rotation is seen: {files:?}");
}

#[test]
fn no_message_repeats_the_password_of_a_store() {
    let is_about_stores =
        |file: &PathBuf| file.file_stem().is_some_and(|stem| stem.to_string_lossy().starts_with("store-"));
    let files: Vec<PathBuf> = cases().into_iter().filter(is_about_stores).collect();
    let with_password = files.iter().filter(|file| fs::read_to_string(file).unwrap().contains("fish"));
    assert!(with_password.count() >= 15);
    for file in files {
        let said = words(&load(&sources(&file)));
        assert!(!said.contains("fish"), "{said}");
    }
}

#[test]
fn no_part_of_a_secret_is_ever_shown() {
    for file in cases().iter().filter(|file| file.to_string_lossy().contains("device")) {
        let sources = sources(file);
        let loaded = load(&sources);
        let json: String = loaded.diagnostics.iter().map(|found| found.to_json().to_string()).collect();
        let said = format!("{} {json} {loaded:?} {sources:?}", words(&loaded));
        let secrets = ["planted", "1234567", "1111111"];
        assert!(!secrets.iter().any(|secret| said.contains(secret)), "{}: {said}", file.display());
    }
}

#[test]
fn broken_texts_of_any_kind_are_refused_without_a_panic() {
    let sample = full_sample();
    // The whole sample is read each time. `scripts/soak properties` breaks it in fourteen times as many places.
    let (cuts, oddities) = if std::env::var_os("PROPTEST_CASES").is_some() { (7, 97) } else { (97, 1361) };
    for cut in (0..sample.len()).step_by(cuts).filter(|&cut| sample.is_char_boundary(cut)) {
        let cut = load(&Sources::from_text("cut", &sample[..cut]));
        cut.diagnostics.iter().for_each(|found| drop((found.render(true), found.to_json())));
    }
    for odd in ['\0', '"', '[', ']', '=', '\u{feff}', '\u{202e}', '{', '.', '\''] {
        for at in (0..sample.len()).step_by(oddities).filter(|&at| sample.is_char_boundary(at)) {
            let mut text = sample.clone();
            text.insert(at, odd);
            let loaded = load(&Sources::from_text("odd", &text));
            loaded.diagnostics.iter().for_each(|found| drop((found.render(false), found.to_json())));
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_judged_without_a_panic(text in ".*(\\n.*)*") {
        let loaded = load(&Sources::from_text("any", &text));
        loaded.diagnostics.iter().for_each(|found| drop((found.render(true), found.to_json())));
    }

}

proptest! {
    #![proptest_config(of_the_whole_sample())]

    #[test]
    fn any_value_for_any_key_is_judged_without_a_panic(key in prop::sample::select(settings(&full_sample())), value in "[ -~\u{e4}]{0,20}") {
        let sample = Sources::from_text("config.toml", &full_sample());
        let loaded = load(&sample.with_set([(key, value)]));
        loaded.diagnostics.iter().for_each(|found| drop((found.render(true), found.to_json())));
        prop_assert_eq!(loaded.config.is_none(), loaded.diagnostics.iter().any(|found| found.is_error()));
    }
}

/// The whole sample is read for each case.
fn of_the_whole_sample() -> ProptestConfig {
    let chosen = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { chosen.cases } else { 100 };
    ProptestConfig { cases, ..chosen }
}

fn full_sample() -> String {
    // [tls.acme] asks for a listener that uses its certificates.
    let text = fs::read_to_string("config.toml").unwrap();
    activated(&text).replacen("listen = \"http://[::]:8080\"", "listen = \"https://[::]:443\"", 1)
}

/// Every key and every table of a text.
fn settings(text: &str) -> Vec<String> {
    let document = DeTable::parse(text).unwrap();
    let mut settings = Vec::new();
    let mut tables = vec![(String::new(), document.get_ref())];
    while let Some((path, table)) = tables.pop() {
        for (key, value) in table {
            let key = format!("{path}\"{}\"", key.get_ref());
            if let DeValue::Table(inner) = value.get_ref() {
                tables.push((format!("{key}."), inner));
            }
            settings.push(key);
        }
    }
    settings
}

/// The sample with every line that is a setting, or the head of a table, in a comment.
fn activated(text: &str) -> String {
    let lines = text.lines().map(|line| match line.strip_prefix('#') {
        Some(head) if head.starts_with('[') => head,
        Some(setting) if setting.contains(" = ") && !setting.starts_with([' ', '!']) => setting,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// The text with an unknown key at the top, after each table's header, and as a table of its own.
fn mutations(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let headers =
        lines.iter().enumerate().filter(|(_, line)| line.starts_with('[')).map(|(index, _)| index + 1);
    let mut mutated: Vec<(usize, String)> = std::iter::once(0)
        .chain(headers)
        .map(|after| (after, [&lines[..after], &[INTRUDER], &lines[after..]].concat().join("\n")))
        .collect();
    for table in [
        "[intruder]",
        "[route.x.intruder]",
        "[limit.x.intruder]",
        "[route]\nintruder = 1",
        "[limit]\nintruder = 1",
    ] {
        mutated.push((lines.len(), format!("{text}\n{table}\n")));
    }
    mutated
}

fn samples() -> Vec<PathBuf> {
    let mut samples = cases();
    samples.push("config.toml".into());
    samples.extend(files("examples", "toml"));
    samples
}

fn cases() -> Vec<PathBuf> {
    files("tests/config", "toml")
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    paths.sort();
    paths
}

fn sources(file: &Path) -> Sources {
    let mut sources = Sources::from_file(file).unwrap();
    for line in sources.text.clone().lines() {
        let pair = |rest: &str| rest.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        if let Some(rest) = line.strip_prefix("#! set ") {
            sources.set.extend(pair(rest));
        } else if let Some(rest) = line.strip_prefix("#! env ") {
            sources.environment.extend(pair(rest));
        }
    }
    sources
}

/// What `check` prints: all diagnostics, then the worst cases.
fn words(loaded: &Loaded) -> String {
    let found: String = loaded.diagnostics.iter().map(|found| found.render(false) + "\n").collect();
    let policy = loaded.config.iter().map(|config| &config.policy);
    let worst = policy.flat_map(|policy| {
        let limits = worst_cases(policy).into_iter().map(|(_, words)| words);
        limits.chain(combined(policy).iter().map(ToString::to_string)).collect::<Vec<_>>()
    });
    found + &worst.map(|line| line + "\n").collect::<String>()
}

const INTRUDER: &str = "intruder = 1";
const SAMPLE_SAYS: &str = "\
address: at most 10 at once, then 2,880 a day from one address
subnet: at most 60 at once, then 17,280 a day from one /24 network (IPv6: /48)
login: one address: at most 10 at once, 2,890 in a day; one /24 network (IPv6: /48): at most 60 at once, 17,340 in a day; \
nothing bounds an attacker with addresses in many /24 networks (IPv6: /48)
";
