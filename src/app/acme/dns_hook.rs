//! Runs the operator's command that puts the records of dns-01 (RFC 8555, section 8.4) into DNS, and removes them again.
//!
//! Its arguments are those of `exec` in lego, so that scripts for lego do. It is run without a shell and without the
//! gate's environment, for a bounded time; what it prints is read to a bound. Whatever it starts in its process group
//! ends with it.

use std::io::{self, PipeReader, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::foreign_text::printable;
use crate::app::sandbox::Broker;
use crate::net::tls::DnsHook;

/// A record that is in DNS until this is closed or dropped.
pub(super) struct OpenRecord {
    call: Option<HookCall>,
    broker: Broker,
}

/// What the command is called with.
#[derive(Debug, Clone)]
struct HookCall {
    hook: DnsHook,
    /// The name to be certified.
    domain: String,
    record: String,
    value: String,
    /// A removal waits for the command that puts the record there, even if nobody waits for that one any more.
    turn: Arc<Mutex<()>>,
}

/// Why a record is not there.
#[derive(Debug, thiserror::Error)]
pub(super) enum HookError {
    #[error("`dns_hook` cannot be run: {0}")]
    Start(#[from] io::Error),
    #[error("`dns_hook` took longer than {} s{said}", MAX_HOOK.as_secs())]
    Timeout { said: String },
    #[error("`dns_hook` ended with {status}{said}")]
    Failed { status: ExitStatus, said: String },
}

impl OpenRecord {
    /// Puts the record for this name there.
    pub(super) async fn present(
        hook: &DnsHook,
        domain: &str,
        value: String,
        broker: &Broker,
    ) -> Result<Self, HookError> {
        let record = format!("_acme-challenge.{}.", domain.strip_prefix("*.").unwrap_or(domain));
        let (hook, domain) = (hook.clone(), domain.to_owned());
        let call = HookCall { hook, domain, record, value, turn: Arc::default() };
        // Made first: a command that fails, or is not waited for, may have changed something all the same.
        let open = Self { call: Some(call.clone()), broker: broker.clone() };
        match run(call, "present", broker).await {
            Ok(()) => Ok(open),
            Err(error) => {
                open.close().await;
                Err(error)
            }
        }
    }

    /// Removes it.
    pub(super) async fn close(mut self) {
        if let Some(call) = self.call.take() {
            remove(call, self.broker.clone()).await;
        }
    }
}

impl Drop for OpenRecord {
    fn drop(&mut self) {
        let runtime = Handle::try_current();
        if let (Some(call), Ok(runtime)) = (self.call.take(), runtime) {
            runtime.spawn(remove(call, self.broker.clone()));
        }
    }
}

async fn remove(call: HookCall, broker: Broker) {
    let record = call.record.clone();
    if let Err(error) = run(call, "cleanup", &broker).await {
        tracing::warn!("the record {record} was not removed: {error}");
    }
}

/// A confined thread may start no program. It has its own thread, because the end of the gate does not wait for that.
async fn run(call: HookCall, action: &'static str, broker: &Broker) -> Result<(), HookError> {
    let (done, ended) = oneshot::channel();
    // Nobody may wait any more.
    let work = move || drop(done.send(call.run(action, MAX_HOOK)));
    broker.run(move || thread::Builder::new().name("dns-hook".to_owned()).spawn(work)).await??;
    ended.await.map_err(io::Error::other)?
}

impl HookCall {
    /// Blocks until the command has ended.
    fn run(&self, action: &str, at_most: Duration) -> Result<(), HookError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut reader, writer) = io::pipe()?;
        ioctl_fionbio(&reader, true).map_err(io::Error::from)?;
        let mut command = Command::new(&self.hook.program);
        command.args(&self.hook.arguments).args([action, &self.record, &self.value]).env_clear();
        let kept = PASSED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.envs(kept).env("TOLLGATE_ACME_DOMAIN", &self.domain).process_group(0);
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let mut child = command.spawn()?;
        // It has our copies of the end of the pipe that is written to.
        drop(command);
        let group = Pid::from_child(&child);
        let mut output = HookOutput::default();
        let has_ended = wait(group, &mut reader, &mut output, at_most);
        // Before its id is free for another process.
        let _ = kill_process_group(group, Signal::KILL);
        let status = child.wait()?;
        output.take(&mut reader);
        match has_ended {
            true if status.success() => Ok(()),
            true => Err(HookError::Failed { status, said: output.said() }),
            false => Err(HookError::Timeout { said: output.said() }),
        }
    }
}

/// Whether the process has ended in time. It is not reaped.
fn wait(process: Pid, reader: &mut PipeReader, output: &mut HookOutput, at_most: Duration) -> bool {
    let looks = at_most.as_nanos() / PAUSE.as_nanos();
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    for _ in 0..looks {
        // An error means that there is no such process.
        if !matches!(waitid(WaitId::Pid(process), options), Ok(None)) {
            return true;
        }
        output.take(reader);
        thread::sleep(PAUSE);
    }
    false
}

/// The beginning of what a command printed.
#[derive(Default)]
struct HookOutput(Vec<u8>);

impl HookOutput {
    /// Reads what is there, and keeps as much of it as has room.
    fn take(&mut self, reader: &mut PipeReader) {
        let mut some = [0; 4096];
        // A pipe holds sixteen of them: one that is written to without end does not hold up the caller.
        for _ in 0..16 {
            let Ok(length @ 1..) = reader.read(&mut some) else { return };
            let room = MAX_OUTPUT.saturating_sub(self.0.len());
            self.0.extend(some.iter().take(length.min(room)));
        }
    }

    fn said(&self) -> String {
        let text = printable(String::from_utf8_lossy(&self.0).trim());
        if text.is_empty() { text } else { format!(": {text}") }
    }
}

/// DNS itself may take its time: the command returns when the authority can see the record.
const MAX_HOOK: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(20);
/// Bytes of its output that are read; the log has 500 letters.
const MAX_OUTPUT: usize = 4096;
/// Variables of the gate that the command gets. The others may be secrets.
const PASSED_ON: [&str; 4] = ["PATH", "HOME", "CREDENTIALS_DIRECTORY", "STATE_DIRECTORY"];

#[cfg(test)]
mod tests {
    use super::*;

    fn call(script: &str) -> HookCall {
        let arguments = ["-c", script, "hook"].map(str::to_owned).into();
        HookCall {
            hook: DnsHook { program: "/bin/sh".into(), arguments },
            domain: "*.app.test".into(),
            record: "_acme-challenge.app.test.".into(),
            value: "value".into(),
            turn: Arc::default(),
        }
    }

    fn words(script: &str, at_most: Duration) -> String {
        call(script).run("present", at_most).map_or_else(|error| error.to_string(), |()| "done".to_owned())
    }

    #[test]
    fn a_command_gets_its_arguments_and_little_of_the_environment() {
        let said = words("echo \"$# $1 $2 $3 $TOLLGATE_ACME_DOMAIN $CARGO_MANIFEST_DIR\"; exit 3", MAX_HOOK);
        let line = "3 present _acme-challenge.app.test. value *.app.test";
        assert_eq!(said, format!("`dns_hook` ended with exit status: 3: {line}"));
        assert_eq!(words("true", MAX_HOOK), "done");
        assert_eq!(words("kill -9 $$", MAX_HOOK), "`dns_hook` ended with signal: 9 (SIGKILL)");
        let nothing =
            HookCall { hook: DnsHook { program: "/nowhere".into(), arguments: Vec::new() }, ..call("") };
        let error = nothing.run("present", MAX_HOOK).unwrap_err().to_string();
        assert!(error.starts_with("`dns_hook` cannot be run: "), "{error}");
    }

    #[test]
    fn much_output_is_cut_and_holds_up_nothing() {
        let said = words("head -c 3000000 /dev/zero | tr '\\0' 'x'; printf '\\033[31m'; exit 1", MAX_HOOK);
        assert_eq!(said.len(), "`dns_hook` ended with exit status: 1: ".len() + 500, "{said}");
        let said = words("echo one; echo 'two\u{1b}[31m' >&2; exit 1", MAX_HOOK);
        assert_eq!(said, "`dns_hook` ended with exit status: 1: onetwo[31m");
    }

    /// Also one that a process of its group would outlive, and one that never stops to print.
    #[test]
    fn a_command_that_does_not_end_is_killed_with_all_that_it_started() {
        for script in
            ["sleep 1000 & echo $!; wait", "sleep 1000 & echo $!; sleep 1; yes", "sleep 1000 & echo $!"]
        {
            let said = match call(script).run("present", Duration::from_secs(2)) {
                Err(HookError::Timeout { said }) => said,
                Ok(()) => {
                    assert!(!script.ends_with("wait"), "{script}");
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            let process = said.trim_start_matches(": ").split(|c: char| !c.is_ascii_digit()).next().unwrap();
            let state = || std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            let has_ended = |state: &str| state.is_empty() || state.contains(") Z ");
            for _ in 0..100 {
                if has_ended(&state()) {
                    break;
                }
                thread::sleep(Duration::from_millis(100));
            }
            assert!(has_ended(&state()), "{script}: {}", state());
        }
    }
}
