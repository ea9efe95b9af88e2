//! The built program as a command in a directory of its own: what it prints, and how it ends.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::{binary, new_directory};

/// What a run of the program printed, and its exit code.
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// A new directory in which the program runs. It is removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        Self(new_directory())
    }

    pub fn run(&self, arguments: &[&str]) -> Said {
        self.run_in(arguments, &[], "")
    }

    /// The same with these environment variables and this standard input.
    pub fn run_in(&self, arguments: &[&str], environment: &[(&str, &str)], input: &str) -> Said {
        let mut command = Command::new(binary());
        command.current_dir(&self.0).args(arguments).env_remove("TOLLGATE_CONFIG");
        command.envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        // A command that does not read its input may have ended.
        let _ = process.stdin.take().unwrap().write_all(input.as_bytes());
        let output = process.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    /// What `explain` prints of an attempt on the sign-in form, with these limits in the file.
    pub fn explain(&self, limits: &str, options: &[&str]) -> String {
        let route = "listen = \"http://[::]:80\"\nupstream = \"http://127.0.0.1:81\"\n\
                     [route.login]\nmatch = \"POST /login\"\n";
        fs::write(self.0.join("config.toml"), format!("{route}{limits}")).unwrap();
        let said = self.run(&[&["explain"], options, &["POST", "/login"]].concat());
        assert_eq!((said.code, &*said.err), (Some(0), ""));
        said.out
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
