//! What a route's attempts cost, and the rates and exemptions of networks.

use std::net::Ipv4Addr;
use std::time::Duration;

use support::{Gate, Upstream, eventually, new_directory, post};

#[test]
fn an_attempt_pays_the_cost_of_its_route() {
    let upstream = Upstream::start();
    let file = "[route.login]\nmatch = \"POST /login\"\ncost = 4\n[limit.address]\nrate = \"10 per 1h\"\n";
    let gate = Gate::start(&upstream.file(file));
    let statuses: Vec<_> = (0..3).map(|_| gate.ask(post("/login", "a=b")).status).collect();
    assert_eq!(statuses, [200, 200, 429]);
}

#[test]
fn networks_have_their_own_rates_and_exemptions() {
    let upstream = Upstream::start();
    let file = "[networks]\noffice = [\"127.0.1.0/24\"]\n[route.login]\nmatch = \"POST /login\"\n\
                [limit.address]\nrate = \"1 per 1h\"\nexempt = [\"office\"]\n\
                [limit.address.rates]\n\"127.0.2.0/24\" = \"3 per 1h\"\n\"127.0.2.9\" = \"off\"\n";
    let gate = Gate::start(&upstream.file(file));
    let admitted = |source: [u8; 4]| {
        let mut client = gate.connect_from(Ipv4Addr::from(source));
        let ask = |_: &i32| {
            client.send(post("/login", "a=b"));
            client.answer().status == 200
        };
        (0..5).filter(ask).count()
    };
    assert_eq!(
        [
            admitted([127, 0, 0, 5]),
            admitted([127, 0, 1, 5]),
            admitted([127, 0, 2, 5]),
            admitted([127, 0, 2, 9])
        ],
        [1, 5, 3, 5]
    );
    assert!(gate.metrics().contains("decision=\"exempt\""));
}

#[test]
fn a_list_of_networks_is_read_again_when_it_changes_and_buckets_stay() {
    let list = new_directory().join("office.txt");
    std::fs::write(&list, "192.0.2.0/24\n").unwrap();
    let upstream = Upstream::start();
    let file = format!(
        "[networks]\noffice = [\"@{}\"]\n[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"1 per 1h\"\nexempt = [\"office\"]\n",
        list.display()
    );
    let gate = Gate::start(&upstream.file(&file));
    let status = |source: [u8; 4]| {
        let mut client = gate.connect_from(Ipv4Addr::from(source));
        client.send(post("/login", "a=b"));
        client.answer().status
    };
    assert_eq!(
        [status([127, 0, 0, 5]), status([127, 0, 0, 5]), status([127, 0, 0, 6]), status([127, 0, 0, 6])],
        [200, 429, 200, 429]
    );
    std::fs::write(&list, "192.0.2.0/24\n127.0.0.6 # moved in\n").unwrap();
    assert!(
        eventually(Duration::from_secs(10), || status([127, 0, 0, 6]) == 200),
        "the new list is in force"
    );
    assert_eq!(status([127, 0, 0, 5]), 429, "and a drained bucket is as drained as before");
    std::fs::write(&list, "nonsense\n").unwrap();
    assert!(eventually(Duration::from_secs(10), || gate
        .metrics()
        .contains("tollgate_config_reloads_total{result=\"refused\"} 1")));
    assert_eq!(status([127, 0, 0, 6]), 200, "a bad list changes nothing");
}
