//! What a thousand sites cost: a check in proportion to their number, and a request as much as one site.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use http::{HeaderMap, Method};
use support::policy::attempt;
use support::sites::{SHARED, name, plain, wordpress};
use tollgate::config::{Sources, load};
use tollgate::policy::Policy;
use tollgate::policy::attempt::Attempt;

use crate::parsers::thread_time;

type Site = fn(usize, SocketAddr) -> String;

/// One file with so many sites.
fn policy(count: usize, site: Site) -> Policy {
    let mut text = format!("listen = \"http://[::]:80\"\nupstream = \"http://127.0.0.1:81\"\n{SHARED}");
    for number in 0..count {
        let [high, low] = u16::try_from(number).unwrap().to_be_bytes();
        text += &site(number, SocketAddr::from(([127, 1, high, low], 81)));
    }
    load(&Sources::from_text("gate.toml", &text)).config.unwrap().policy
}

fn fastest(runs: u32, mut run: impl FnMut()) -> u64 {
    (0..runs).map(|_| thread_time(&mut run)).min().unwrap()
}

#[test]
fn a_request_costs_as_much_at_the_last_of_a_thousand_sites_as_at_a_single_one() {
    let headers = HeaderMap::new();
    for (site, path) in [(wordpress as Site, "/wp-login.php"), (plain, "/login")] {
        for method in [Method::GET, Method::POST] {
            let [one, many] = [1, 1_000].map(|count| {
                let (policy, host) = (policy(count, site), format!("{}.example.org", name(count - 1)));
                let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
                let request = Attempt { method: &method, host: &host, ..attempt(path, client, &headers) };
                assert!(policy.upstream_of(&request).is_some() && !policy.routes_of(&request).is_empty());
                fastest(100, || {
                    (0..50).for_each(|_| {
                        black_box((policy.routes_of(&request), policy.upstream_of(&request)));
                    })
                })
            });
            assert!(many < 3 * one, "{method} {path}: {one} ns at one site, {many} at a thousand");
        }
    }
}

#[test]
fn a_check_costs_in_proportion_to_the_sites() {
    for site in [wordpress as Site, plain] {
        let [few, many] = [200, 1_000].map(|count| fastest(3, || drop(black_box(policy(count, site)))));
        assert!(many < 12 * few, "{few} ns for 200 sites, {many} for 1,000");
    }
}
