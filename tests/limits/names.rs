//! Networks by a name of DNS: who is exempt follows the name.

use std::fs;
use std::net::Ipv4Addr;
use std::time::Duration;

use support::{Gate, Launch, ONE_AN_HOUR, Upstream, compile, eventually, new_directory, post_with};

/// The statuses of two attempts from this address.
fn two_from(gate: &Gate, address: [u8; 4]) -> [u16; 2] {
    let mut client = gate.connect_from(Ipv4Addr::from(address));
    [(); 2].map(|()| {
        client.send(post_with("/login", ""));
        client.answer().status
    })
}

fn file(upstream: &Upstream, name: &str) -> String {
    upstream.file(&format!("{ONE_AN_HOUR}exempt = \"home\"\n[networks]\nhome = \"dns:{name}\"\n"))
}

#[test]
fn a_name_that_is_known_at_the_start_exempts_its_addresses() {
    let upstream = Upstream::start();
    let gate = Gate::start(&file(&upstream, "localhost"));
    assert_eq!(two_from(&gate, [127, 0, 0, 1]), [200, 200]);
    assert_eq!(two_from(&gate, [127, 0, 0, 2]), [200, 429]);
    let (taken, refused) = gate.reloads();
    assert!(refused == 0 && taken <= 1, "the same answer is no change");
    assert!(gate.reload(&file(&upstream, "localhost").replace("dns:localhost", "127.0.0.2")));
    assert_eq!(two_from(&gate, [127, 0, 0, 2]), [200, 200], "a file without names");
}

/// The sandbox is on: a confined thread could not look a name up.
#[test]
fn a_name_that_is_found_later_counts_without_a_signal() {
    let (upstream, directory) = (Upstream::start(), new_directory());
    let (library, names) = (directory.join("resolver.so"), directory.join("names"));
    compile(&["-shared", "-fPIC", "-O1"], "tests/tools/resolver.c", &library);
    let launch = Launch::new(&file(&upstream, "home.test"))
        .environment("LD_PRELOAD", library.to_str().unwrap())
        .environment("NAMES", names.to_str().unwrap())
        .with_admin("audit = \"audit.log\"\n");
    let gate = launch.start();
    assert_eq!(two_from(&gate, [127, 0, 0, 3]), [200, 429]);
    assert_eq!(gate.reloads(), (0, 0));
    fs::write(&names, "127.0.0.3\n").unwrap();
    assert!(eventually(Duration::from_secs(30), || gate.reloads() == (1, 0)), "{}", gate.messages());
    let audit = || fs::read_to_string(gate.directory.join("audit.log")).unwrap();
    let is_told = || {
        let text = audit();
        text.contains(r#""who":"dns""#) && text.contains(r#""after":{"dns:home.test":["127.0.0.3"]}"#)
    };
    assert!(eventually(Duration::from_secs(10), is_told), "{}", audit());
    assert_eq!(two_from(&gate, [127, 0, 0, 3]), [200, 200]);
    assert_eq!(two_from(&gate, [127, 0, 0, 4]), [200, 429]);
    let _ = fs::remove_dir_all(directory);
}
