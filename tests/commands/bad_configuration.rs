//! Commands that only want the store of a configuration: its mistakes end them as they end every other command.

use std::fs;

use support::Folder;

const COMMANDS: [&[&str]; 6] = [
    &["fleet"],
    &["audit", "list"],
    &["audit", "verify", "--fleet"],
    &["policy", "show"],
    &["policy", "history"],
    &["policy", "diff"],
];

#[test]
fn mistakes_of_a_configuration_are_the_last_word_of_commands_about_its_store() {
    let folder = Folder::new();
    fs::write(folder.0.join("empty.toml"), "").unwrap();
    for command in COMMANDS {
        let said = folder.run(&[command, &["-c", "empty.toml"]].concat());
        assert_eq!((said.code, &*said.out), (Some(78), ""), "{command:?}: {}", said.err);
        assert!(said.err.contains("error: `listen` is missing"), "{command:?}: {}", said.err);
        assert!(said.err.ends_with("empty.toml: 2 mistakes\n"), "{command:?}: {}", said.err);
        let environment = [("TOLLGATE_STORE__URL", "foo://x")];
        let said = folder.run_in(command, &environment, "");
        assert_eq!(said.code, Some(78), "{command:?}: {}", said.err);
        assert!(said.err.contains("this is not the address of a store"), "{command:?}: {}", said.err);
        assert!(!said.err.contains("tollgate: "), "{command:?}: {}", said.err);
    }
}

#[test]
fn a_configuration_without_a_shared_store_is_none_for_commands_about_one() {
    let folder = Folder::new();
    let file = "listen = \"http://[::]:80\"\nupstream = \"http://127.0.0.1:81\"\n";
    fs::write(folder.0.join("config.toml"), file).unwrap();
    let said = folder.run(&["fleet", "-c", "config.toml"]);
    assert!(said.code == Some(1) && said.err.contains("no store that gates share is named"), "{}", said.err);
}
