use std::net::Ipv4Addr;

use http::{HeaderValue, StatusCode};

use super::*;
use crate::event::{AccessLogEntry, LimitDecision, WiringSigns};
use crate::observe::samples;
use crate::observe::settings::ClientsShown;
use crate::policy::key::PrefixLengths;

fn wiring() -> Wiring {
    let clients = ClientFormatter::new(ClientsShown::Full, PrefixLengths::default());
    Wiring::new(clients, Clock::system())
}

/// A request from this address.
fn request(from: [u8; 4]) -> AccessLogEntry {
    let ip = IpAddr::from(Ipv4Addr::from(from));
    let signs = WiringSigns { untrusted_peer: Some(ip), ..WiringSigns::default() };
    AccessLogEntry {
        client: Client::from_ip(ip),
        attempt: None,
        signs,
        status: StatusCode::OK,
        ..samples::entry()
    }
}

/// An attempt from this address, admitted by every limit.
fn attempt(from: [u8; 4]) -> AccessLogEntry {
    let mut attempt = samples::attempt();
    attempt.limits.iter_mut().for_each(|record| record.decision = LimitDecision::Admit);
    AccessLogEntry { attempt: Some(Box::new(attempt)), ..request(from) }
}

fn refused(from: [u8; 4], agent: u32) -> AccessLogEntry {
    let agent = HeaderValue::from_str(&format!("agent {agent}")).unwrap();
    AccessLogEntry { attempt: Some(Box::new(samples::attempt())), user_agent: Some(agent), ..request(from) }
}

fn summaries(entries: impl IntoIterator<Item = AccessLogEntry>) -> Vec<&'static str> {
    let wiring = wiring();
    entries.into_iter().for_each(|entry| wiring.on_event(&Event::RequestCompleted(&entry)));
    wiring.check(|_| {}).iter().map(|warning| warning.summary).collect()
}

fn public(n: u32) -> [u8; 4] {
    let [_, _, c, d] = n.to_be_bytes();
    [203, 0, c, d]
}

#[test]
fn attempts_that_nearly_all_come_from_one_private_address_are_named() {
    let mix = |private: u32, others: u32| {
        (0..private).map(|_| attempt([10, 0, 0, 1])).chain((0..others).map(|n| attempt(public(n))))
    };
    assert_eq!(summaries(mix(96, 4)), [ONE_CLIENT]);
    assert!(summaries(mix(80, 20)).is_empty(), "some come from elsewhere");
    assert!(summaries(mix(99, 0)).is_empty(), "too few");
    assert!(summaries((0..500).map(|_| attempt([203, 0, 113, 9]))).is_empty(), "an attacker is not a proxy");
}

#[test]
fn a_trusted_proxy_that_names_no_client_is_named() {
    let client = Client::BehindProxy([203, 0, 113, 1].into());
    let entries = (0..100).map(|_| AccessLogEntry { client, ..attempt([203, 0, 113, 1]) });
    assert_eq!(summaries(entries), [ONE_CLIENT]);
}

#[test]
fn a_peer_that_names_clients_steadily_is_named_and_a_crank_is_not() {
    let naming = |from| {
        let mut entry = request(from);
        entry.signs.names_client = true;
        entry
    };
    let honest = || (0..150).map(|n| request(public(n)));
    assert_eq!(summaries((0..20).map(|_| naming([10, 0, 0, 1]))), [UNTRUSTED_PROXY]);
    assert!(summaries((0..19).map(|_| naming([10, 0, 0, 1]))).is_empty());
    assert!(
        summaries((0..20).map(|_| naming([10, 0, 0, 1])).chain((0..21).map(|_| request([10, 0, 0, 1]))))
            .is_empty()
    );
    let crank = (0..30).map(|_| naming([203, 0, 113, 9]));
    assert!(summaries(crank.chain(honest()).chain(honest())).is_empty());
}

#[test]
fn a_trusted_proxy_that_never_names_the_scheme_is_named() {
    let through = |schemeless: bool| {
        let mut entry = request(public(1));
        entry.signs.schemeless_proxy = schemeless.then(|| [10, 0, 0, 1].into());
        entry
    };
    assert_eq!(summaries((0..20).map(|_| through(true))), [NO_SCHEME]);
    assert!(summaries((0..60).map(|n| through(n % 3 == 0))).is_empty(), "one of several proxies, or a probe");
}

#[test]
fn a_form_with_a_password_that_no_route_covers_is_named_with_its_path() {
    let form = |host: u8, status: u16| {
        let mut entry = request([203, 0, 113, host]);
        entry.signs.has_uncovered_password = true;
        AccessLogEntry { status: StatusCode::from_u16(status).unwrap(), ..entry }
    };
    let wiring = wiring();
    (0..5).for_each(|n| wiring.on_event(&Event::RequestCompleted(&form(n, 302))));
    let warnings = wiring.check(|_| {});
    assert!(warnings[0].summary == UNCOVERED_FORM && warnings[0].text.contains(" /login,"), "{warnings:?}");
    assert!(!warnings[0].summary.contains('/') && !warnings[0].text.contains("next="));
    assert!(summaries((0..9).map(|n| form(n, 404))).is_empty(), "a scanner finds no form");
    assert!(summaries((0..9).map(|_| form(1, 200))).is_empty(), "one client");
}

#[test]
fn an_id_that_comes_back_again_and_again_is_a_loop_and_one_that_is_repeated_is_none() {
    let returned = |id: u32| {
        let mut entry = request([203, 0, 113, 1]);
        entry.signs.has_own_id = true;
        AccessLogEntry { request_id: Some(HeaderValue::from(id)), ..entry }
    };
    assert_eq!(summaries((0..16).map(|_| returned(7))), [LOOP]);
    assert!(summaries((0..60).map(|n| returned(n / 3))).is_empty(), "clients repeat an id now and then");
}

#[test]
fn one_address_that_is_refused_with_many_user_agents_is_named() {
    assert_eq!(summaries((0..40).map(|agent| refused([203, 0, 113, 1], agent))), [SHARED_CLIENT]);
    assert!(summaries((0..400).map(|n| refused([203, 0, 113, 1], n % 9))).is_empty());
    assert!(summaries((0..400).map(|n| refused(public(n), n))).is_empty(), "many clients");
    assert!(
        summaries((0..40).map(|agent| AccessLogEntry { ..refused([203, 0, 113, 1], agent % 2) })).is_empty()
    );
}

#[test]
fn honest_mixed_load_names_nothing() {
    let load = (0..5000_u32).map(|n| match n % 5 {
        0 => attempt(public(n % 300)),
        1 => refused(public(n % 40), n % 3),
        2 => attempt([10, 0, 0, (n % 7) as u8]),
        _ => request(public(n % 900)),
    });
    assert_eq!(summaries(load), [""; 0]);
}

#[test]
fn a_warning_is_said_once_and_again_after_a_change_of_the_rules_and_a_new_sign() {
    let wiring = wiring();
    let policy = samples::policy(&["login"], &["address"]);
    let said = |wiring: &Wiring| {
        (0..100).for_each(|_| wiring.on_event(&Event::RequestCompleted(&attempt([10, 0, 0, 1]))));
        let mut said = 0;
        (0..5).for_each(|_| assert_eq!(wiring.check(|_| said += 1).len(), 1));
        said
    };
    assert_eq!((said(&wiring), said(&wiring)), (1, 0));
    wiring.on_event(&Event::Rules { generation: 1, policy: &policy });
    assert!(wiring.check(|_| {}).is_empty(), "it may be right now");
    assert_eq!(said(&wiring), 1);
}

#[test]
fn the_counts_stay_small_whatever_comes() {
    let signs = SampledSigns::default();
    (0..20_000).for_each(|n| signs.add(&refused(public(n), n)));
    assert!(size_of::<SampledSigns>() < 4096, "{}", size_of::<SampledSigns>());
}
