//! Tests that look at the whole of their process: its memory, its descriptors, its threads.

use std::process::Command;

/// Runs a test in a process of its own, because others that run beside it in this one would be measured too.
///
/// To be called by the test itself with all that it does.
///
/// # Panics
/// If the test fails. What it says is printed.
pub fn in_own_process<F: FnOnce()>(test: F) {
    // Rust calls the closure `target::module::name_of_the_test::{{closure}}`.
    let path = std::any::type_name::<F>().trim_end_matches("::{{closure}}");
    let name = path.split_once("::").unwrap().1;
    if std::env::var_os(MARK).is_some() {
        return test();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--include-ignored", "--nocapture", "--test-threads", "1"]);
    let output = command.env(MARK, "yes").output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    eprintln!("{said}");
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{name} failed in its own process, see above"
    );
}

const MARK: &str = "IN_OWN_PROCESS";
