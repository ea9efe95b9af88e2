//! `site add` writes a site that `check` accepts, or changes nothing; `site list` shows all.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::Value;
use support::sites::{INCLUDE, wordpress, write};
use support::{Folder, Said};

/// A main file with comments, in an order that no program would choose.
const MAIN: &str =
    "# our gate\nupstream = \"http://127.0.0.1:1\"   # the old server\nlisten = \"http://[::]:8080\"\n";

/// Neither can lock an owner out, so that `check` has nothing to say.
const LIMITS: &str =
    "[limit.address]\nrate = \"10 per 5m\"\n[limit.site]\nkey = \"host+ip\"\nrate = \"60 per 1h\"\n";

/// A directory with this line in its main file.
fn gate(include: &str) -> Folder {
    let folder = Folder::new();
    fs::write(folder.0.join("config.toml"), format!("{MAIN}{include}{LIMITS}")).unwrap();
    folder
}

/// Adds a site with a host and an upstream of its own.
fn add(folder: &Folder, name: &str, options: &[&str]) -> Said {
    let (host, upstream) = (format!("{name}.example.org"), upstream(name));
    let usual = ["site", "add", name, "--preset", "wordpress", "--host", &host, "--upstream", &upstream];
    folder.run(&[&usual, options].concat())
}

fn upstream(name: &str) -> String {
    let number = name.bytes().fold(7, |number: u16, byte| number.wrapping_mul(31).wrapping_add(byte.into()));
    format!("http://127.1.{}.{}:81", number / 256, number % 256)
}

/// The names of all files below a directory, with their texts.
fn files(folder: &Folder) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for directory in [folder.0.clone(), folder.0.join("sites")] {
        for entry in fs::read_dir(directory).into_iter().flatten().map(Result::unwrap) {
            if entry.path().is_file() {
                found.push((entry.path().display().to_string(), fs::read_to_string(entry.path()).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_site_gets_a_file_of_its_own_where_a_directory_is_included() {
    let folder = gate(INCLUDE);
    let said = add(&folder, "shop", &["--host", "www.shop.example.org"]);
    assert_eq!((said.code, &*said.out), (Some(0), ""), "{}", said.err);
    assert!(
        said.err.contains("sites/shop.toml is written") && said.err.contains("kill -HUP"),
        "{}",
        said.err
    );
    assert_eq!(folder.read("config.toml"), format!("{MAIN}{INCLUDE}{LIMITS}"));
    assert_eq!(add(&folder, "blog", &[]).code, Some(0));
    let said = folder.run(&["check"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    for (url, expected) in [
        ("http://www.shop.example.org/wp-login.php", "route     shop"),
        ("http://blog.example.org/about", "route     blog-pages"),
    ] {
        let said = folder.run(&["explain", url]);
        assert!(said.out.contains(expected), "{url}: {}", said.out);
    }
    assert_eq!(files(&folder).len(), 3, "nothing is left behind: {:?}", files(&folder));
}

#[test]
fn a_site_goes_to_the_end_of_the_main_file_where_nothing_is_included_and_what_is_there_stays() {
    for end in ["", "\n", "# the end, without a line feed"] {
        let folder = gate("");
        let before = folder.read("config.toml") + end;
        fs::write(folder.0.join("config.toml"), &before).unwrap();
        let said = add(&folder, "shop", &[]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(said.err.contains("include = [\"sites/*.toml\"]"), "{}", said.err);
        let after = folder.read("config.toml");
        assert!(
            after.starts_with(&before) && after.contains("\n[route.shop]\npreset   = \"wordpress\"\n"),
            "{after}"
        );
        let said = folder.run(&["check"]);
        assert_eq!((said.code, &*said.err), (Some(0), ""));
        assert_eq!(files(&folder).len(), 1);
    }
}

#[test]
fn every_preset_can_be_a_site() {
    let folder = gate(INCLUDE);
    for preset in tollgate::config::preset::presets() {
        let host = format!("{}.example.org", preset.name);
        let words = [
            "site",
            "add",
            &host,
            "--preset",
            preset.name,
            "--host",
            &host,
            "--upstream",
            &upstream(preset.name),
        ];
        let said = folder.run(&words);
        assert_eq!(said.code, Some(0), "{}: {}", preset.name, said.err);
        assert!(!said.err.contains("warning"), "{}: {}", preset.name, said.err);
    }
    assert_eq!(folder.run(&["check"]).code, Some(0));
}

#[test]
fn what_is_there_already_is_refused_and_nothing_changes() {
    let template = "[template.customers]\nhosts = [\"anna.example.org\", \"*.bert.example.org\"]\npreset = \"wordpress\"\n\
                    [route.old-pages]\nmatch = \"ANY /x\"\nhost = \"old.example.org\"\n";
    let folder = gate(INCLUDE);
    fs::write(folder.0.join("config.toml"), folder.read("config.toml") + template).unwrap();
    assert_eq!(add(&folder, "shop", &[]).code, Some(0));
    fs::write(folder.0.join("sites/empty.toml"), "# nothing yet\n").unwrap();
    let before = files(&folder);
    for (name, options, expected) in [
        ("shop", &[][..], "there is a route `shop` at sites/shop.toml:1:8 already"),
        ("customers", &[], "there is a template `customers` at "),
        ("old", &[], "there is a route `old-pages` at "),
        (
            "new",
            &["--host", "Shop.example.ORG"],
            "shop.example.org is a host of route `shop` at sites/shop.toml:1:8 already",
        ),
        ("new", &["--host", "anna.example.org"], "anna.example.org is a host of template `customers` at "),
        ("empty", &[], "sites/empty.toml is there already"),
    ] {
        let said = add(&folder, name, options);
        assert_eq!((said.code, &*said.out), (Some(1), ""), "{name}: {}", said.err);
        assert!(said.err.contains(expected), "{name}: {}", said.err);
        assert_eq!(files(&folder), before, "{name}");
    }
    let said = add(&folder, "deep", &["--host", "deep.bert.example.org"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(
        said.err.contains("deep.bert.example.org is also below a host of template `customers`"),
        "{}",
        said.err
    );
}

#[test]
fn arguments_that_cannot_be_right_are_refused_with_a_hint() {
    let folder = gate(INCLUDE);
    let before = files(&folder);
    let usual =
        [("--preset", "wordpress"), ("--host", "a.example.org"), ("--upstream", "http://127.0.0.1:82")];
    for (option, value, expected) in [
        ("--preset", "wordpres", "did you mean `wordpress`"),
        ("--host", "https://a.example.org", "without scheme"),
        ("--host", "a.example.org:80", "and port"),
        ("--host", "a.example.org/blog", "path"),
        ("--host", "münchen.example.org", "in ASCII"),
        ("--upstream", "127.0.0.1 82", "--upstream"),
    ] {
        let mut words = vec!["site", "add", "a"];
        usual
            .iter()
            .for_each(|(name, usual)| words.extend([*name, if *name == option { value } else { usual }]));
        let said = folder.run(&words);
        assert_eq!((said.code, &*said.out), (Some(2), ""), "{value}");
        assert!(said.err.contains(expected), "{value}: {}", said.err);
    }
    for name in ["", "a b", "../a", ".a", &"a".repeat(59)] {
        assert_eq!(add(&folder, name, &[]).code, Some(2), "{name}");
    }
    assert_eq!(files(&folder), before);
}

#[test]
fn a_file_that_cannot_be_written_is_named_and_nothing_changes() {
    let folder = gate(INCLUDE);
    fs::write(folder.0.join("sites"), "no directory").unwrap();
    let said = add(&folder, "shop", &[]);
    assert_eq!((said.code, &*said.out), (Some(1), ""), "{}", said.err);
    assert!(said.err.contains("cannot write ") && said.err.contains("sites/shop.toml"), "{}", said.err);
    assert_eq!(folder.read("sites"), "no directory");
    // Another command is writing it.
    let folder = gate("");
    let before = folder.read("config.toml");
    fs::write(folder.0.join("config.toml.new"), "").unwrap();
    let said = add(&folder, "shop", &[]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert_eq!(folder.read("config.toml"), before);
    let said = folder.run_in(
        &["-c", "-", "site", "add", "a", "--preset", "basic", "--host", "a", "--upstream", "http://b"],
        &[],
        &before,
    );
    assert!(said.code == Some(1) && said.err.contains("no file that a site can be added to"), "{}", said.err);
}

#[test]
fn the_whole_configuration_is_checked_before_anything_is_written() {
    let folder = gate(INCLUDE);
    fs::write(folder.0.join("config.toml"), folder.read("config.toml").replace("upstream", "upstreem"))
        .unwrap();
    let said = add(&folder, "shop", &[]);
    assert_eq!(said.code, Some(78), "{}", said.err);
    assert!(said.err.contains("unknown key `upstreem`"), "{}", said.err);
    assert!(!folder.0.join("sites").exists());
    // A main file that the site cannot be appended to.
    let folder = gate("");
    let inline = format!("{MAIN}route = {{ login = {{ match = \"POST /login\" }} }}\n{LIMITS}");
    fs::write(folder.0.join("config.toml"), &inline).unwrap();
    assert_eq!(folder.run(&["check"]).code, Some(0));
    let said = add(&folder, "shop", &[]);
    assert_eq!(said.code, Some(78), "{}", said.err);
    assert!(said.err.ends_with("nothing is changed\n"), "{}", said.err);
    assert_eq!(folder.read("config.toml"), inline);
}

#[test]
fn more_files_than_can_be_included_are_refused_before_they_are_written() {
    let folder = gate(INCLUDE);
    write(&folder.0, 1_000, |number| wordpress(number, ([127, 0, 0, 1], 82).into()));
    let said = add(&folder, "shop", &[]);
    assert_eq!(said.code, Some(78), "{}", said.err);
    assert!(said.err.contains("too much to include"), "{}", said.err);
    assert!(!folder.0.join("sites/shop.toml").exists());
}

#[test]
fn print_shows_what_would_be_written_and_writes_nothing() {
    let folder = gate(INCLUDE);
    let before = files(&folder);
    let said = add(&folder, "shop.example.org", &["--print"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.starts_with("[route.\"shop.example.org\"]\npreset   = \"wordpress\"\n"), "{}", said.out);
    assert!(
        said.err.contains("would be written to ") && said.err.contains("sites/shop.example.org.toml"),
        "{}",
        said.err
    );
    assert_eq!(files(&folder), before);
}

#[test]
fn a_file_keeps_its_permissions_and_a_link_still_leads_to_it() {
    let folder = gate("");
    fs::rename(folder.0.join("config.toml"), folder.0.join("real.toml")).unwrap();
    fs::set_permissions(folder.0.join("real.toml"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real.toml", folder.0.join("config.toml")).unwrap();
    assert_eq!(add(&folder, "shop", &[]).code, Some(0));
    assert!(fs::symlink_metadata(folder.0.join("config.toml")).unwrap().is_symlink());
    let mode = |name: &str| fs::metadata(folder.0.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("real.toml"), 0o640);
    assert!(folder.read("real.toml").contains("[route.shop]"));
    let folder = gate(INCLUDE);
    fs::set_permissions(folder.0.join("config.toml"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(add(&folder, "shop", &[]).code, Some(0));
    let mode = fs::metadata(folder.0.join("sites/shop.toml")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o640, "who may not read the main file may not read the sites");
}

#[test]
fn the_next_command_is_the_one_of_the_set_up() {
    for (line, expected) in [
        ("reload = \"watch\"\n", "reads it by itself"),
        ("[admin]\nlisten = \"unix:/run/gate/admin.sock\"\n", "tollgate reload -c "),
    ] {
        let folder = gate("");
        let text = folder.read("config.toml");
        let text = if line.starts_with('[') { text + line } else { format!("{line}{text}") };
        fs::write(folder.0.join("config.toml"), text).unwrap();
        let said = add(&folder, "shop", &[]);
        assert!(said.code == Some(0) && said.err.contains(expected), "{}", said.err);
    }
}

#[test]
fn a_list_has_a_line_for_each_site_and_for_each_host_of_a_template() {
    let template = "[template.customers]\nhosts = [\"anna.example.org\", \"bert.example.org\"]\npreset = \"wordpress\"\n\
                    [limit.slow]\nroutes = \"customers\"\nrate = \"1 per 1h\"\nmode = \"observe\"\n";
    let folder = gate(INCLUDE);
    fs::write(folder.0.join("config.toml"), folder.read("config.toml") + template).unwrap();
    assert_eq!(add(&folder, "shop", &["--host", "www.shop.example.org"]).code, Some(0));
    let said = folder.run(&["site", "list"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    let lines: Vec<Vec<&str>> = said
        .out
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(
        lines,
        [
            ["SITE", "HOSTS", "UPSTREAM", "PRESET", "LIMITS"],
            [
                "shop",
                "shop.example.org, www.shop.example.org",
                &*upstream("shop"),
                "wordpress",
                "address, site"
            ],
            [
                "customers",
                "anna.example.org",
                "http://127.0.0.1:1",
                "template wordpress",
                "address, site, slow (observe)"
            ],
            [
                "customers",
                "bert.example.org",
                "http://127.0.0.1:1",
                "template wordpress",
                "address, site, slow (observe)"
            ],
        ],
        "{}",
        said.out
    );
    let said = folder.run(&["site", "list", "bert.example.org", "--format", "json"]);
    let list: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(list["sites"].as_array().unwrap().len(), 1, "{list}");
    let site = &list["sites"][0];
    assert_eq!(
        (&site["site"], &site["preset"], &site["template"]),
        (&"customers".into(), &"wordpress".into(), &true.into())
    );
    assert_eq!(site["limits"][2], serde_json::json!({"limit": "slow", "mode": "observe"}));
    let said = folder.run(&["site", "list", "shp"]);
    assert_eq!((said.code, &*said.out), (Some(1), ""));
    assert!(said.err.contains("there is no site `shp`: did you mean `shop`?"), "{}", said.err);
}

#[test]
fn a_thousand_sites_are_a_thousand_lines() {
    let folder = gate(INCLUDE);
    write(&folder.0, 1_000, |number| wordpress(number, ([127, 0, 0, 1], 82).into()));
    let said = folder.run(&["site", "list"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert_eq!(said.out.lines().count(), 1_001);
    let widest = said.out.lines().map(str::len).max().unwrap();
    assert!(widest <= 120, "{widest} letters a line");
    let one = folder.run(&["site", "list", "site0731"]);
    assert_eq!(one.out.lines().count(), 2, "{}", one.out);
}
