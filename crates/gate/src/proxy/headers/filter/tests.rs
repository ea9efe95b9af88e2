//! Tests of the rules of names, and of their list in the documents.

use std::collections::BTreeSet;

use super::*;

fn drops(filter: &HeaderFilter, name: &str, trusted: bool) -> bool {
    filter.drops(&HeaderName::from_bytes(name.as_bytes()).unwrap(), trusted, None)
}

fn pattern(text: &str) -> NamePattern {
    NamePattern::parse(text).unwrap()
}

/// A name that a listed pattern matches.
fn example(listed: &str) -> String {
    listed.replace('*', "x")
}

/// L13: checks each listed name in all spellings that CGI folds onto it.
#[test]
fn every_listed_name_is_dropped_in_every_spelling() {
    let (filter, passing) = (HeaderFilter::default(), HeaderFilter::default().passing_odd_names());
    for listed in [REWRITTEN, NEVER, OF_DEFENCES, UNLESS_TRUSTED].concat() {
        let name = example(listed);
        for spelling in [name.clone(), name.to_uppercase(), name.replace('-', "_"), name.replace('-', ".")] {
            assert!(drops(&filter, &spelling, false), "{spelling}");
            assert!(drops(&passing, &spelling, false), "{spelling}, where odd names pass");
        }
        let from_trusted = drops(&filter, &name, true);
        let is_never = NEVER.contains(&listed) || OF_DEFENCES.contains(&listed);
        assert_eq!(from_trusted, is_never || !is_plain(&name), "{name} of a trusted proxy");
    }
}

/// L3: checks every byte that a name may have other than letters, digits and the hyphen.
#[test]
fn names_that_are_no_plain_words_are_dropped_unless_they_are_to_pass() {
    let (filter, passing) = (HeaderFilter::default(), HeaderFilter::default().passing_odd_names());
    for byte in "!#$%&'*+.^_`|~".chars() {
        for name in [format!("a{byte}b"), format!("{byte}ab"), format!("ab{byte}")] {
            assert!(drops(&filter, &name, false) && drops(&filter, &name, true), "{name}");
            assert!(!drops(&passing, &name, false), "{name}");
        }
        for name in ["host", "content-length", "x-request-id", "cookie"] {
            let alias = if name.contains('-') { name.replace('-', &byte.to_string()) } else { continue };
            assert!(drops(&passing, &alias, true), "{alias}");
        }
    }
    for name in [
        "accept",
        "x-plain",
        "x-requested-with",
        "user-agent",
        "sec-fetch-site",
        "x-auth-token",
        "x-csrf-token",
    ] {
        assert!(!drops(&filter, name, false), "{name}");
    }
    ALWAYS_PASSED.iter().for_each(|name| assert!(!drops(&filter, name, false), "{name}"));
}

#[test]
fn names_are_added_and_taken_away() {
    let filter = HeaderFilter::default()
        .without(&pattern("X-Auth-Request-Email"))
        .without(&pattern("X-Remote-Extra-*"))
        .without(&pattern("X-Real-IP"))
        .with(&pattern("X-Staff"))
        .with(&pattern("X-Acme-*"));
    let dropped = |name| drops(&filter, name, false);
    assert!(!dropped("x-auth-request-email") && dropped("x-auth-request-user"));
    assert!(!dropped("x-remote-extra-scopes") && dropped("x-remote-user"));
    assert!(!dropped("x-real-ip"));
    assert!(dropped("x-staff") && dropped("x-acme-user") && !dropped("x-staffer"));
    assert!(!drops(&filter, "x-staff", true), "a trusted proxy may send it");
    let widest = HeaderFilter::default().without(&pattern("X-*")).with(&pattern("C*")).with(&pattern("H*"));
    assert!(!drops(&widest, "x-remote-user", false));
    assert!(drops(&widest, "x-forwarded-for", false), "a rewritten header is never a client's");
    ALWAYS_PASSED.iter().for_each(|name| assert!(!drops(&widest, name, false), "{name}"));
}

#[test]
fn a_pattern_is_a_name_with_any_end() {
    assert_eq!(pattern("X-A*"), NamePattern { text: "x-a".into(), is_prefix: true });
    for text in ["", "*", "a b", "a*b", "**", "é", "a:", "x-*-y"] {
        assert_eq!(NamePattern::parse(text), None, "{text}");
    }
}

#[test]
fn what_is_listed_is_known_by_name_and_by_prefix() {
    let filter = HeaderFilter::default();
    for (text, kind) in [
        ("Forwarded", Some(SenderRule::Rewritten)),
        ("X-Real-IP", Some(SenderRule::Never)),
        ("X-Forwarded-User", Some(SenderRule::UnlessTrusted)),
        ("X-Auth-Request-*", Some(SenderRule::UnlessTrusted)),
        ("X-Auth-Req*", Some(SenderRule::UnlessTrusted)),
        ("X-Plain", None),
        ("X-Plain-*", None),
    ] {
        assert_eq!(filter.kind_of(&pattern(text)), kind, "{text}");
    }
}

#[test]
fn the_documents_name_what_is_dropped_and_nothing_else() {
    let documents = include_str!("../../../../../../docs/headers.md");
    let section = documents.split("## Headers that the application does not see").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    let named: BTreeSet<String> =
        rows.flat_map(|row| row.split('`').skip(1).step_by(2)).map(str::to_ascii_lowercase).collect();
    let listed = [NEVER, OF_DEFENCES, UNLESS_TRUSTED].concat();
    let listed: BTreeSet<String> = listed.into_iter().map(str::to_owned).collect();
    let (missing, surplus): (Vec<_>, Vec<_>) =
        (listed.difference(&named).collect(), named.difference(&listed).collect());
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "not in the documents: {missing:?}; only there: {surplus:?}"
    );
}
