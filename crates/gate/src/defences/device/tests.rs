//! Browsers that sign in, come back, and forge tokens.

use http::header::COOKIE;
use proptest::prelude::*;

use super::*;

const ONE_DAY: Span = Span::from_secs(86_400);
const TTL: Span = Span::from_secs(180 * 86_400);
const NOW: Time = Time::from_nanos(1_763_700_000 * 1_000_000_000);

fn under(keys: &[&str]) -> Devices {
    Devices::new(keys.iter().map(|key| key.as_bytes().to_vec()).collect(), TTL, "dev")
}

fn account(name: &str) -> Account {
    Account::fold(name.as_bytes())
}

fn with(cookies: &[&str]) -> HeaderMap {
    cookies.iter().map(|cookie| (COOKIE, cookie.parse().unwrap())).collect()
}

/// The pair that a browser sends back.
fn pair(set: &HeaderValue) -> String {
    set.to_str().unwrap().split(';').next().unwrap().to_owned()
}

/// The cookie of a browser with these cookies after a sign-in.
fn sign_in(devices: &Devices, cookies: &[&str], name: &str, now: Time) -> String {
    let claim = devices.read(&with(cookies), now).claim("app", &account(name));
    pair(&claim.grant(now, false).unwrap())
}

fn device(devices: &Devices, cookies: &[&str], name: &str, now: Time) -> Option<OwnerId> {
    devices.read(&with(cookies), now).owner("app", &account(name))
}

#[test]
fn a_browser_is_known_for_the_account_it_signed_in_to_and_for_no_other() {
    let devices = under(&["k1"]);
    let cookie = sign_in(&devices, &[], "alice", NOW);
    assert!(device(&devices, &[&cookie], "alice", NOW).is_some());
    assert!(device(&devices, &[&cookie], " ALICE ", NOW).is_some(), "by the folded name");
    assert!(device(&devices, &[&cookie], "bob", NOW).is_none());
    let carried = devices.read(&with(&[&cookie]), NOW);
    assert!(carried.owner("other", &account("alice")).is_none(), "another application");
    assert!(device(&under(&["k2"]), &[&cookie], "alice", NOW).is_none(), "another installation");
}

#[test]
fn a_browser_that_signs_in_again_stays_the_same_device_and_its_time_begins_anew() {
    let devices = under(&["k1"]);
    let first = sign_in(&devices, &[], "alice", NOW);
    let later = NOW.after(Span::from_secs(100 * 86_400));
    let second = sign_in(&devices, &[&first], "alice", later);
    assert_ne!(first, second);
    assert_eq!(second.split('.').count(), 1, "one token for each account");
    assert_eq!(
        device(&devices, &[&first], "alice", later),
        device(&devices, &[&second], "alice", later),
        "its budget goes on"
    );
    let latest = NOW.after(Span::from_secs(200 * 86_400));
    assert!(device(&devices, &[&first], "alice", latest).is_none());
    assert!(device(&devices, &[&second], "alice", latest).is_some());
    let stranger = sign_in(&devices, &[], "alice", NOW);
    assert_ne!(device(&devices, &[&first], "alice", NOW), device(&devices, &[&stranger], "alice", NOW));
}

#[test]
fn a_token_is_too_old_after_its_time_and_cannot_come_from_the_day_after_tomorrow() {
    let devices = under(&["k1"]);
    let cookie = sign_in(&devices, &[], "alice", NOW);
    let known = |now| device(&devices, &[&cookie], "alice", now).is_some();
    assert!(known(NOW.after(TTL).before(Span::from_secs(1))) && !known(NOW.after(TTL)));
    assert!(known(NOW.before(ONE_DAY)) && !known(NOW.before(Span::from_secs(86_401))));
    let shorter = Devices::new(vec![b"k1".to_vec()], ONE_DAY, "dev");
    assert!(
        device(&shorter, &[&cookie], "alice", NOW.after(ONE_DAY)).is_none(),
        "by the time to live in force now"
    );
}

#[test]
fn five_accounts_fit_and_the_oldest_falls_out() {
    let devices = under(&["k1"]);
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut cookie = String::new();
    for (seconds, name) in (0..).zip(names) {
        cookie = sign_in(&devices, &[&cookie], name, NOW.after(Span::from_secs(seconds)));
    }
    assert_eq!(cookie.split('.').count(), 5);
    let known: Vec<bool> =
        names.iter().map(|name| device(&devices, &[&cookie], name, NOW).is_some()).collect();
    assert_eq!(known, [false, true, true, true, true, true]);
    let renewed = sign_in(&devices, &[&cookie], "b", NOW.after(ONE_DAY));
    let next = sign_in(&devices, &[&renewed], "g", NOW.after(ONE_DAY));
    assert!(device(&devices, &[&next], "b", NOW).is_some() && device(&devices, &[&next], "c", NOW).is_none());
}

#[test]
fn tokens_of_older_keys_are_known_and_new_ones_are_made_under_the_newest() {
    let old = under(&["k1"]);
    let cookie = sign_in(&old, &[], "bob", NOW);
    let cookie = sign_in(&old, &[&cookie], "alice", NOW);
    let both = under(&["k2", "k1"]);
    assert_eq!(device(&both, &[&cookie], "alice", NOW), device(&old, &[&cookie], "alice", NOW));
    let renewed = sign_in(&both, &[&cookie], "alice", NOW);
    assert_eq!(device(&both, &[&renewed], "alice", NOW), device(&old, &[&cookie], "alice", NOW));
    assert!(device(&old, &[&renewed], "alice", NOW).is_none(), "the older key issues no tokens");
    assert!(device(&both, &[&renewed], "bob", NOW).is_some(), "the tokens for other accounts stay");
    let new = under(&["k2"]);
    assert!(device(&new, &[&renewed], "alice", NOW).is_some());
    assert!(device(&new, &[&renewed], "bob", NOW).is_none(), "tokens of a removed key are not valid");
}

#[test]
fn the_cookie_is_for_this_site_alone_and_no_script_reads_it() {
    let devices = under(&["k1"]);
    let claim = devices.read(&HeaderMap::new(), NOW).claim("app", &account("alice"));
    let plain = claim.grant(NOW, false).unwrap();
    let secure = claim.grant(NOW, true).unwrap();
    let (plain, secure) = (plain.to_str().unwrap(), secure.to_str().unwrap());
    assert!(plain.starts_with("dev=") && secure.starts_with("__Host-dev="));
    assert!(plain.ends_with("; Max-Age=15552000; Path=/; HttpOnly; SameSite=Lax"), "{plain}");
    assert!(secure.ends_with("; Max-Age=15552000; Path=/; Secure; HttpOnly; SameSite=Lax"), "{secure}");
    for set in [plain, secure] {
        let cookie = set.split(';').next().unwrap();
        assert!(device(&devices, &[cookie], "alice", NOW).is_some());
        let (headers, quoted) = (with(&[cookie]), cookie.replace('=', "=\"") + "\"");
        assert!(device(&devices, &[&quoted], "alice", NOW).is_none(), "browsers do not quote");
        assert!(devices.others(&headers).is_some_and(|others| others.is_empty()));
    }
}

#[test]
fn both_cookies_of_a_browser_count_and_the_newest_token_of_an_account_is_the_device() {
    let devices = under(&["k1"]);
    let older = sign_in(&devices, &[], "alice", NOW);
    let newer = sign_in(&devices, &[], "alice", NOW.after(ONE_DAY)).replace("dev=", "__Host-dev=");
    let bobs = sign_in(&devices, &[], "bob", NOW);
    let expected = device(&devices, &[&newer], "alice", NOW);
    for cookies in [[&older, &newer, &bobs], [&newer, &bobs, &older]] {
        let cookies = cookies.map(String::as_str);
        assert_eq!(device(&devices, &cookies, "alice", NOW), expected);
        assert_eq!(sign_in(&devices, &cookies, "alice", NOW).split('.').count(), 2, "alice once, and bob");
    }
}

#[test]
fn what_is_broken_does_not_hide_what_is_good() {
    let devices = under(&["k1"]);
    let cookie = sign_in(&devices, &[], "alice", NOW);
    let token = cookie.strip_prefix("dev=").unwrap();
    let foreign = sign_in(&under(&["k2"]), &[], "alice", NOW);
    let foreign = foreign.strip_prefix("dev=").unwrap();
    for line in [
        format!("dev=; a=b; dev={token}"),
        format!("dev=.x..{token}"),
        format!("dev={foreign}.{token}"),
        format!("dev={token}{token}.{token}"),
        format!("dev={token}.{token}.{token}.{token}.{token}.{token}"),
    ] {
        let tokens = devices.verified_tokens(&with(&[&line]), NOW);
        assert_eq!(tokens.tokens.len(), 1, "{line}");
        assert!(tokens.owner("app", &account("alice")).is_some());
    }
}

#[test]
fn nothing_of_it_is_ever_shown() {
    let devices = under(&["planted-key"]);
    let cookie = sign_in(&devices, &[], "planted-name", NOW);
    let token = cookie.strip_prefix("dev=").unwrap();
    let carried = devices.read(&with(&[&cookie]), NOW);
    let known = carried.owner("app", &account("planted-name")).unwrap();
    let claim = carried.claim("app", &account("planted-name"));
    let set = claim.grant(NOW, true).unwrap();
    let shown = format!("{devices:?} {known:?} {claim:?} {set:?}");
    assert!(!shown.contains("planted") && !shown.contains(&token[10..40]), "{shown}");
    assert!(!shown.contains(&known.0.to_string()) && !shown.contains("112, 108, 97"), "{shown}");
}

#[test]
fn without_a_key_no_device_is_known_and_nothing_is_issued() {
    let devices = Devices::new(Vec::new(), TTL, "dev");
    let cookie = sign_in(&under(&["k1"]), &[], "alice", NOW);
    assert!(device(&devices, &[&cookie], "alice", NOW).is_none());
    let claim = devices.read(&HeaderMap::new(), NOW).claim("app", &account("alice"));
    assert!(claim.grant(NOW, true).is_none());
}

proptest! {
    #[test]
    fn any_lines_are_read_and_name_no_known_device(
        lines in prop::collection::vec("(dev=|__Host-dev=|[-_A-Za-z0-9]{94}|[.;= ])*", 0..4),
    ) {
        let devices = under(&["k1", "k2"]);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        prop_assert!(devices.verified_tokens(&with(&lines), NOW).tokens.is_empty());
    }

    #[test]
    fn any_names_have_tokens_of_their_own(one in "[a-z]{0,4}", other in "[a-z]{0,4}", application in "[a-z]{0,3}") {
        let devices = under(&["k1"]);
        let claim = devices.read(&HeaderMap::new(), NOW).claim(&application, &account(&one));
        let cookie = pair(&claim.grant(NOW, false).unwrap());
        let carried = devices.read(&with(&[&cookie]), NOW);
        let (one, other) = (account(&one), account(&other));
        prop_assert_eq!(carried.owner(&application, &other).is_some(), one == other);
    }
}
