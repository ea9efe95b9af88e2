//! Dovecot with `examples/endpoints/dovecot.conf`: it asks the gate, so a web form, IMAP and SMTP share the bucket of an account.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use support::{Gate, Launch, Upstream, eventually, free_port, installed, new_directory, post, root, signal};

/// Dovecot, a gate that it asks, and an application with a form; gone when dropped.
struct Mail {
    dovecot: Dovecot,
    gate: Gate,
    _application: Upstream,
}

/// With the accounts anna and bert, whose password is `right`.
struct Dovecot {
    process: Child,
    imap: SocketAddr,
    directory: PathBuf,
}

impl Mail {
    /// `lines` are for Dovecot.
    fn start(lines: &str) -> Self {
        let application = Upstream::start();
        let endpoint = free_port();
        let read = |name: &str| fs::read_to_string(root().join("examples/endpoints").join(name)).unwrap();
        let here = |name: &str| read(name).replace(":9184", &format!(":{endpoint}"));
        let file = here("dovecot.toml").replace("listen   = \"http://127.0.0.1:8080\"\n", "");
        let file = file.replace("http://127.0.0.1:8081", &format!("http://{}", application.address));
        let gate = Launch::new(&file).start();
        let dovecot = Dovecot::start(&(here("dovecot.conf") + lines));
        Self { dovecot, gate, _application: application }
    }

    /// Whether the form lets the password be checked. Its application knows none.
    fn asks_the_form(&self, user: &str) -> bool {
        self.gate.ask(post("/login", &format!("user={user}&password=x"))).status == 200
    }

    /// What Dovecot answers to so many wrong passwords at once.
    fn guesses(&self, user: &str, times: usize) -> Vec<String> {
        let guess = || self.dovecot.sign_in(user, "wrong");
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..times).map(|_| scope.spawn(guess)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// Right passwords, of two clients at once, so many of each. Dovecot answers before it reports, so more at once could find
    /// the bucket empty.
    fn welcomes(&self, times: usize) {
        let sign_in = || {
            for number in 0..times {
                let answer = self.dovecot.sign_in("anna", "right");
                assert!(is_welcome(&answer), "{number}: {answer} {}", self.dovecot.said());
            }
        };
        std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(sign_in))));
    }

    /// Whether so many attempts have this outcome soon.
    fn waits_for(&self, outcome: &str, count: f64) -> bool {
        eventually(Duration::from_secs(20), || self.ended(outcome) >= count)
    }

    fn ended(&self, outcome: &str) -> f64 {
        self.gate.metric("tollgate_attempts_total", &format!("outcome=\"{outcome}\""))
    }
}

impl Dovecot {
    fn start(policy: &str) -> Self {
        let (directory, port) = (new_directory(), free_port());
        let mails = directory.join("mail");
        fs::create_dir(&mails).unwrap();
        // Root may neither greet nor own mails.
        for (path, mode) in [(&directory, 0o711), (&mails, 0o777)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::write(directory.join("people"), "anna:{PLAIN}right::::::\nbert:{PLAIN}right::::::\n").unwrap();
        let me = said_by("id", &["-un"]);
        let ours = said_by("id", &["-gn"]);
        let (login, group) = match me.as_str() {
            "root" => ("nobody", said_by("id", &["-gn", "nobody"])),
            me => (me, ours.clone()),
        };
        let (place, port_number) = (directory.to_str().unwrap(), port.to_string());
        let words = [
            ("@directory@", place),
            ("@port@", &port_number),
            ("@me@", &me),
            ("@login@", login),
            ("@group@", &group),
            ("@ours@", &ours),
        ];
        let file = words.into_iter().fold(OWN.to_owned(), |file, (word, with)| file.replace(word, with));
        fs::write(directory.join("dovecot.conf"), file + policy).unwrap();
        let log = fs::File::create(directory.join("dovecot.log")).unwrap();
        let mut command = installed("dovecot", "dovecot-core");
        command.arg("-F").arg("-c").arg(directory.join("dovecot.conf")).stdin(Stdio::null());
        let process = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let dovecot = Self { process, imap: ([127, 0, 0, 1], port).into(), directory };
        let listens = || TcpStream::connect(dovecot.imap).is_ok();
        assert!(eventually(Duration::from_secs(20), listens), "Dovecot listens: {}", dovecot.said());
        dovecot
    }

    /// The answer to a sign-in by IMAP.
    fn sign_in(&self, user: &str, password: &str) -> String {
        let mut connection = TcpStream::connect(self.imap).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        connection.write_all(format!("1 LOGIN {user} {password}\r\n2 LOGOUT\r\n").as_bytes()).unwrap();
        let lines: Vec<_> = BufReader::new(connection).lines().map_while(Result::ok).collect();
        let answer = lines.into_iter().find(|line| line.starts_with("1 "));
        answer.unwrap_or_else(|| panic!("no answer: {}", self.said()))
    }

    /// Whether a sign-in of an SMTP server, which knows no sessions, is right.
    fn relays(&self, user: &str, password: &str) -> bool {
        let mut command = installed("doveadm", "dovecot-core");
        command.arg("-c").arg(self.directory.join("dovecot.conf"));
        command.args(["auth", "test", "-x", "service=smtp", "-x", "rip=192.0.2.7", user, password]);
        let output = command.output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 77)), "{output:?} {}", self.said());
        output.status.success()
    }

    fn said(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.directory.join(name)).unwrap_or_default();
        read("dovecot.log") + &read("messages.log")
    }
}

impl Drop for Dovecot {
    fn drop(&mut self) {
        // It ends its own processes.
        signal(self.process.id(), "TERM");
        let has_ended =
            eventually(Duration::from_secs(10), || matches!(self.process.try_wait(), Ok(Some(_))));
        if !has_ended {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
        remove(&self.directory);
    }
}

/// Removes a directory in which processes that end may still write.
fn remove(directory: &Path) {
    eventually(Duration::from_secs(5), || fs::remove_dir_all(directory).is_ok() || !directory.exists());
}

fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn is_welcome(answer: &str) -> bool {
    answer.starts_with("1 OK")
}

#[test]
fn wrong_passwords_by_imap_smtp_and_the_form_empty_one_bucket_and_right_ones_cost_nothing() {
    let mail = Mail::start("");
    mail.welcomes(25);
    (0..5).for_each(|_| assert!(mail.dovecot.relays("anna", "right")));
    assert!(mail.waits_for("success", 55.0), "{}", mail.ended("success"));
    assert_eq!(mail.ended("failure"), 0.0);

    // The bucket has ten tokens: five are for IMAP, four for SMTP, one for the form.
    let answers = mail.guesses("Anna", 5);
    assert!(answers.iter().all(|answer| answer.contains("AUTHENTICATIONFAILED")), "{answers:?}");
    (0..4).for_each(|_| assert!(!mail.dovecot.relays("anna", "wrong")));
    assert!(mail.asks_the_form("ANNA"));
    assert!(mail.waits_for("failure", 10.0), "{}", mail.ended("failure"));

    let answer = mail.dovecot.sign_in("anna", "right");
    assert!(answer.starts_with("1 NO") && answer.contains("Too many sign-in attempts. Wait "), "{answer}");
    assert!(!mail.dovecot.relays("anna", "right") && !mail.asks_the_form("anna"));
    assert!(is_welcome(&mail.dovecot.sign_in("bert", "right")) && mail.asks_the_form("bert"));
    assert_eq!(mail.ended("failure"), 11.0, "no refusal cost anything");
}

#[test]
fn names_of_one_account_share_its_bucket_and_right_passwords_cost_nothing() {
    let mail = Mail::start("auth_username_format = %Ln\n");
    for _ in 0..3 {
        let answer = mail.dovecot.sign_in("Anna@a1", "right");
        assert!(is_welcome(&answer), "{answer} {}", mail.dovecot.said());
    }
    assert!(mail.waits_for("success", 3.0), "{}", mail.ended("success"));
    for name in ["anna@a1", "anna@a2"] {
        let answers = mail.guesses(name, 5);
        assert!(answers.iter().all(|answer| answer.contains("AUTHENTICATIONFAILED")), "{answers:?}");
    }
    assert!(mail.waits_for("failure", 10.0), "{}", mail.ended("failure"));
    let answer = mail.dovecot.sign_in("anna@a3", "right");
    assert!(answer.contains("Too many sign-in attempts. Wait "), "{answer}");
}

#[test]
fn of_40_guesses_at_once_as_many_reach_the_passwords_as_the_bucket_has() {
    // As Dovecot does without the lines of the example: it asks before and after, and sends a hash of the password.
    let default = "auth_policy_check_after_auth = yes\nauth_policy_request_attributes = \
                   login=%{requested_username} pwhash=%{hashed_password} remote=%{rip} \
                   device_id=%{client_id} protocol=%s session_id=%{session}\n";
    let mail = Mail::start(default);
    mail.welcomes(2);
    assert!(mail.waits_for("success", 8.0), "each is asked about twice: {}", mail.ended("success"));
    let answers = mail.guesses("anna", 40);
    let checked = answers.iter().filter(|answer| answer.contains("AUTHENTICATIONFAILED")).count();
    assert_eq!(checked, 10, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.starts_with("1 NO")), "{answers:?}");
}

#[test]
fn without_the_gate_nobody_signs_in_or_everybody_who_knows_a_password_may() {
    for (lines, is_welcomed) in [("", false), ("auth_policy_reject_on_fail = no\n", true)] {
        let mut mail = Mail::start(lines);
        assert!(is_welcome(&mail.dovecot.sign_in("anna", "right")), "{}", mail.dovecot.said());
        mail.gate.signal("KILL");
        assert!(mail.gate.exit_status(Duration::from_secs(5)).is_some());
        let answer = mail.dovecot.sign_in("anna", "right");
        assert_eq!(is_welcome(&answer), is_welcomed, "{answer} {}", mail.dovecot.said());
    }
}

/// A server with two accounts, and no delays for clients that fail.
const OWN: &str = "base_dir = @directory@/run
state_dir = @directory@/state
instance_name = @directory@
log_path = @directory@/messages.log
protocols = imap
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
mail_location = maildir:@directory@/mail/%u
default_internal_user = @me@
default_internal_group = @ours@
default_login_user = @login@
auth_failure_delay = 0
first_valid_uid = 0
mail_max_userip_connections = 100
passdb {
  driver = passwd-file
  args = @directory@/people
}
userdb {
  driver = static
  args = uid=@login@ gid=@group@ home=@directory@/mail/%u
}
service imap-login {
  chroot =
  inet_listener imap {
    port = @port@
  }
  inet_listener imaps {
    port = 0
  }
}
service anvil {
  chroot =
  unix_listener anvil-auth-penalty {
    mode = 0
  }
}
";
