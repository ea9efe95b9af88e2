//! A thousand sites, each in its file: what `check` says of them, where requests go, and what all of it costs.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use support::sites::{INCLUDE, SHARED, name, plain, wordpress, write};
use support::{Folder, Launch, Said, Upstream};

const MANY: usize = 1_000;

fn upstream(number: usize) -> SocketAddr {
    let [high, low] = u16::try_from(number).unwrap().to_be_bytes();
    SocketAddr::from(([127, 1, high, low], 81))
}

/// What `check` says of a directory with such sites.
fn checked(directory: &Folder, options: &[&str]) -> Said {
    let main = "listen = \"http://[::]:8080\"\nupstream = \"http://127.0.0.1:1\"\n";
    fs::write(directory.0.join("config.toml"), format!("{main}{INCLUDE}{SHARED}")).unwrap();
    directory.run(&[&["check"], options].concat())
}

fn lines(said: &Said) -> usize {
    said.out.lines().count() + said.err.lines().count()
}

#[test]
fn a_check_of_a_thousand_sites_is_short_and_names_those_that_differ() {
    let folder = Folder::new();
    write(&folder.0, MANY, |number| match number {
        7 | 500 => wordpress(number, upstream(number)).replace("\nhost", "\nin_flight = 9\nhost"),
        999 => plain(number, upstream(number)),
        _ => wordpress(number, upstream(number)),
    });
    let said = checked(&folder, &[]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let expected = "1000 sites: 997 alike, 3 differ: site0007, site0500, site0999\n";
    assert!(said.out.contains(expected), "{}{}", said.out, said.err);
    assert!(lines(&said) <= 40, "{}{}", said.out, said.err);
    let all = checked(&folder, &["--worst"]);
    assert!(lines(&all) > 5 * 997, "each route is shown when asked for: {} lines", lines(&all));
}

#[test]
fn a_check_of_a_thousand_sites_of_one_kind_says_no_more_than_of_four() {
    for site in [wordpress, plain] {
        let lines = [4, MANY].map(|count| {
            let folder = Folder::new();
            write(&folder.0, count, |number| site(number, upstream(number)));
            let said = checked(&folder, &[]);
            assert_eq!(said.code, Some(0), "{}", said.err);
            assert!(said.out.contains(&format!("{count} sites are alike\n")), "{}", said.out);
            lines(&said)
        });
        assert!(lines[1] <= lines[0].max(40), "{lines:?}");
    }
}

/// Resident memory in KiB of a gate with so many sites, and whether the last of them is served by its own upstream.
fn serve(count: usize, site: impl Fn(usize, SocketAddr) -> String) -> u64 {
    let (last, others) = (Upstream::start(), Upstream::start());
    // Not beside the gate's own file, which goes with a gate whose port is taken.
    let folder = Folder::new();
    write(&folder.0, count, |number| {
        site(number, if number + 1 == count { last.address } else { upstream(number) })
    });
    let include = format!("include = \"{}/sites/*.toml\"\n", folder.0.display());
    let gate = Launch::new(&others.file(&format!("{include}{SHARED}"))).start();
    let ask =
        |host: &str| gate.ask(format!("GET /{host} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
    for host in ["", "WWW."].map(|front| format!("{front}{}.Example.Org:80", name(count - 1))) {
        assert_eq!(ask(&host).status, 200);
        assert!(last.saw(&host) && !others.saw(&host), "{host}");
    }
    for host in ["site.example.org", "a.site0000.example.org", "example.org"] {
        assert_eq!(ask(host).status, 200);
        assert!(others.saw(host) && !last.saw(host), "{host}");
    }
    gate.memory()
}

#[test]
fn the_last_of_a_thousand_sites_has_its_own_upstream_and_all_of_them_take_little_memory() {
    for site in [wordpress, plain] {
        let (one, many) = (serve(1, site), serve(MANY, site));
        assert!(many < one + 60 * 1024, "{one} KiB for one site, {many} KiB for {MANY}");
    }
}

#[test]
fn a_broken_file_among_a_thousand_is_found() {
    let folder = Folder::new();
    write(&folder.0, MANY, |number| match number {
        731 => "[route.site0731]\nmatch = \"POST /login\nhost = \"x\"\n".to_owned(),
        732 => wordpress(7, upstream(number)),
        _ => wordpress(number, upstream(number)),
    });
    let said = checked(&folder, &[]);
    assert_eq!(said.code, Some(78), "{}", said.out);
    assert!(
        said.err.contains(&Path::new("sites").join("site0731.toml:2").display().to_string()),
        "{}",
        said.err
    );
    assert!(said.err.contains("route `site0007` is there twice"), "{}", said.err);
    assert!(lines(&said) <= 40, "{}", said.err);
}
