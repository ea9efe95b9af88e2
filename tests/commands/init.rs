//! `init` writes a first file, and `presets` prints those that come with the program: text, files and exit codes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use support::Folder;

fn sets() -> Vec<String> {
    let names = fs::read_dir("presets/limits").unwrap().map(|entry| entry.unwrap().path());
    names.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn init_writes_a_file_that_check_has_nothing_to_say_against() {
    for set in sets() {
        let folder = Folder::new();
        let said = folder.run(&["init", "--limits", &set]);
        assert_eq!((said.code, &*said.out), (Some(0), ""), "{}", said.err);
        assert!(said.err.contains("config.toml is written"), "{}", said.err);
        let said = folder.run(&["check"]);
        assert_eq!((said.code, &*said.err), (Some(0), ""), "{set}");
        for limit in ["address: ", "address.24: ", "address.16: ", "login: one address: at most "] {
            assert!(said.out.lines().any(|line| line.starts_with(limit)), "{set}: {}", said.out);
        }
        assert!(said.out.ends_with("config.toml: valid, no warnings\n"), "{set}: {}", said.out);
    }
}

#[test]
fn init_takes_a_preset_in_place_of_patterns() {
    let folder = Folder::new();
    let said = folder.run(&["init", "--preset", "wordpress"]);
    assert_eq!((said.code, &*said.out), (Some(0), ""), "{}", said.err);
    assert_eq!(folder.run(&["check"]).code, Some(0));
    let said = folder.run(&["explain", "POST", "http://localhost/blog/wp-login.php"]);
    assert!(said.out.contains("wordpress") || said.out.contains("login"), "{}", said.out);
    let said = folder.run(&["init", "--preset", "wordpres", "-"]);
    assert!(said.code == Some(2) && said.err.contains("did you mean `wordpress`"), "{}", said.err);
}

#[test]
fn every_set_on_disk_can_be_chosen_and_is_listed_with_its_worst_cases() {
    let folder = Folder::new();
    let said = folder.run(&["init", "--list"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert!(sets().len() >= 3);
    for set in sets() {
        assert!(said.out.lines().any(|line| line.starts_with(&format!("{set} "))), "{}", said.out);
    }
    assert_eq!(said.out.matches("\n  address: at most ").count(), sets().len(), "{}", said.out);
    assert_eq!(said.out.matches("\n  login: one address: at most ").count(), sets().len());
    assert!(!folder.0.join("config.toml").exists(), "listing writes nothing");
}

#[test]
fn init_leaves_a_file_as_it_is_unless_force_is_given() {
    let folder = Folder::new();
    for name in ["config.toml", "other.toml"] {
        fs::write(folder.0.join(name), "mine").unwrap();
        let said = folder.run(&["init", name]);
        assert_eq!((said.code, &*said.out), (Some(1), ""));
        assert!(said.err.contains(&format!("{name} exists already")), "{}", said.err);
        assert_eq!(folder.read(name), "mine");
        fs::set_permissions(folder.0.join(name), fs::Permissions::from_mode(0o640)).unwrap();
        let said = folder.run(&["init", "--force", name]);
        assert_eq!((said.code, &*said.out), (Some(0), ""), "{}", said.err);
        assert!(folder.read(name).contains("[route.login]"));
        assert_eq!(fs::metadata(folder.0.join(name)).unwrap().permissions().mode() & 0o777, 0o640);
    }
}

#[test]
fn init_makes_a_token_and_addresses_for_operators() {
    let folder = Folder::new();
    let said = folder.run(&["init", "--admin"]);
    assert_eq!((said.code, &*said.out), (Some(0), ""), "{}", said.err);
    let token = fs::metadata(folder.0.join("admin.token")).unwrap();
    assert_eq!(token.permissions().mode() & 0o777, 0o600);
    let socket = format!("unix:{}/admin.sock", folder.0.canonicalize().unwrap().display());
    assert!(folder.read("config.toml").contains(&socket), "{socket} is in a directory that exists");
    let said = folder.run(&["check"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
}

#[test]
fn init_does_not_write_through_a_link_that_leads_nowhere() {
    let folder = Folder::new();
    std::os::unix::fs::symlink(folder.0.join("target.toml"), folder.0.join("config.toml")).unwrap();
    assert_eq!(folder.run(&["init"]).code, Some(1));
    assert_eq!(folder.run(&["init", "--force"]).code, Some(0));
    assert!(!folder.0.join("target.toml").exists());
    assert!(!folder.0.join("config.toml").is_symlink(), "the link is replaced");
}

#[test]
fn init_says_why_it_cannot_write() {
    let folder = Folder::new();
    let said = folder.run(&["init", "missing/config.toml"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("cannot write missing/config.toml"), "{}", said.err);
}

#[test]
fn init_takes_over_what_it_is_told_and_prints_it_to_a_dash() {
    let folder = Folder::new();
    let options = ["--listen", "http://127.0.0.1:9090", "--upstream", "unix:/run/php.sock"];
    let patterns = ["--match", "POST /wp-login.php", "--match", "POST /a\u{e4}/\"{limits}\"/**"];
    let said = folder.run(&[&["init", "-", "--limits", "strict"], &options[..], &patterns].concat());
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert!(!folder.0.join("config.toml").exists());
    for line in [
        "listen = \"http://127.0.0.1:9090\"",
        "upstream = \"unix:/run/php.sock\"",
        "match = [\"POST /wp-login.php\", \"POST /a\u{e4}/\\\"{limits}\\\"/**\"]",
        "[limit.address-day]",
    ] {
        assert!(said.out.lines().any(|written| written == line), "{line} is not in\n{}", said.out);
    }
    fs::write(folder.0.join("config.toml"), said.out).unwrap();
    assert_eq!(folder.run(&["check"]).code, Some(0));
}

#[test]
fn init_refuses_what_a_file_could_not_say() {
    for wrong in
        [["--listen", "localhost:80"], ["--upstream", "http://"], ["--match", "/login"], ["--limits", "none"]]
    {
        let folder = Folder::new();
        let said = folder.run(&["init", wrong[0], wrong[1]]);
        assert_eq!((said.code, &*said.out), (Some(2), ""), "{wrong:?}: {}", said.err);
        assert!(!folder.0.join("config.toml").exists());
    }
    let folder = Folder::new();
    let said = folder.run(&["init", "--match", "POST /login", "--match", "POST /login"]);
    assert_eq!(said.code, Some(78), "each value is good, both together are not");
    assert!(said.err.contains("`POST /login` is listed twice"), "{}", said.err);
    assert!(!folder.0.join("config.toml").exists());
}

#[test]
fn completions_know_init() {
    let said = Folder::new().run(&["completions", "bash"]);
    assert!(said.out.contains("tollgate__init") || said.out.contains("tollgate__subcmd__init"));
}

#[test]
fn the_sets_are_files_that_say_first_what_they_are_for() {
    for set in sets() {
        let text = fs::read_to_string(Path::new("presets/limits").join(format!("{set}.toml"))).unwrap();
        let (about, limits) = text.split_once("\n\n").unwrap();
        assert!(about.starts_with("# ") && !about.contains('\n'), "{set}: {about}");
        assert!(limits.starts_with("# ") && limits.ends_with('\n'), "{set}");
    }
}

#[test]
fn presets_are_listed_with_where_they_come_from() {
    let said = Folder::new().run(&["presets"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    let lines: Vec<&str> = said.out.lines().collect();
    let names: Vec<&str> = lines.iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() >= 26 && names.is_sorted(), "{}", said.out);
    let of = |name: &str| *lines.iter().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
    assert!(of("wordpress").contains(" verified on WordPress 6.1 (Debian 12)  "), "{}", of("wordpress"));
    assert!(of("wordpress").ends_with("application passwords"), "{}", of("wordpress"));
    assert!(of("owa").contains(" from documentation "), "{}", of("owa"));
    let column =
        |line: &&str| line.find("  verified on").or_else(|| line.find("  from documentation")).unwrap();
    assert!(
        lines.iter().all(|line| column(line) < 16),
        "names and origins stand below each other:\n{}",
        said.out
    );
}

#[test]
fn a_preset_is_printed_as_it_is() {
    let folder = Folder::new();
    for name in ["wordpress", "django-admin", "basic"] {
        let said = folder.run(&["presets", name]);
        assert_eq!((said.code, &*said.err), (Some(0), ""));
        let file = fs::read_to_string(Path::new("presets").join(format!("{name}.toml"))).unwrap();
        let (routes, _) = file.split_once("\n# For `tollgate init --detect`").unwrap();
        assert_eq!(said.out, routes, "without the markers, which no configuration has");
    }
}

#[test]
fn a_preset_that_is_not_there_is_an_error_with_a_suggestion() {
    let folder = Folder::new();
    for (name, hint) in [("wordpres", "did you mean `wordpress`?"), ("horde", "known: `adminer`, ")] {
        let said = folder.run(&["presets", name]);
        assert_eq!((said.code, &*said.out), (Some(1), ""));
        assert!(
            said.err.contains(&format!("unknown preset `{name}`")) && said.err.contains(hint),
            "{}",
            said.err
        );
    }
    assert_eq!(folder.run(&["presets", "a", "b"]).code, Some(2));
}
