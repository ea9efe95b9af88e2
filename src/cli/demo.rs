//! `tollgate demo`: an application without rate limits, a gate in front of it, and an attacker that knows the form, in
//! one process. With an attack, its dashboard opens in the browser of the desktop. It runs until Ctrl-C.
//!
//! All of it stays on the loopback interface. The attacker is bounded and refuses other targets: this is a
//! demonstration, not a tool.

pub mod application;
pub mod attack;

use std::hash::{BuildHasher, RandomState};
use std::io::{self, IsTerminal, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::Arc;

use clap::Args;
use tokio::net::TcpListener;

use self::application::{Application, serve_application};
use self::attack::{AttackBounds, Tally, attack};
use super::Exit;
use super::sources::report;
use crate::app::{App, Inherited, Signals};
use crate::cli::output::{errln, outln};
use crate::config::{Sources, load};
use crate::net::listener::ListenAddress;
use crate::observe::messages;
use crate::observe::settings::{LogFormat, LogLevel};

/// Arguments of `tollgate demo`.
#[derive(Debug, Clone, Args)]
pub struct DemoArgs {
    /// Let an attacker try 300 passwords
    #[arg(long)]
    attack: bool,
    /// The gate's port on 127.0.0.1; any free one if it is taken
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    port: u16,
}

/// Runs the demonstration until Ctrl-C.
///
/// # Errors
/// If no port is free.
pub fn demo(arguments: &DemoArgs) -> anyhow::Result<Exit> {
    let _flush = messages::start(LogLevel::Warn, LogFormat::Auto, || ())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: &DemoArgs) -> anyhow::Result<Exit> {
    let signals = Signals::listen();
    let application = Arc::new(Application::default());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let upstream = listener.local_addr()?;
    tokio::spawn(serve_application(listener, Arc::clone(&application)));
    let token = random_token();
    let Some(app) = build_app(arguments.port, upstream, &token)? else { return Ok(Exit::BadConfiguration) };
    let Some(ListenAddress::Tcp(gate)) = app.addresses().into_iter().next() else { return Ok(Exit::Failed) };
    let Some(ListenAddress::Tcp(admin)) = app.admin_addresses().into_iter().next() else {
        return Ok(Exit::Failed);
    };
    let dashboard = format!("http://operator:{token}@{admin}/");
    print_what_to_try(gate, upstream, &dashboard, arguments.attack);
    if arguments.attack {
        open_browser(&dashboard);
    }
    let attacked = async {
        if arguments.attack {
            run_attack(gate, &application, &dashboard).await;
        }
        std::future::pending().await
    };
    app.run(signals, attacked).await?;
    Ok(Exit::Ok)
}

async fn run_attack(gate: SocketAddr, application: &Application, dashboard: &str) {
    match attack(gate, AttackBounds::default(), show).await {
        Ok(tally) => outln!(
            "\nThe attacker gave up: {tally}. {} reached the application.\n\
             The dashboard stays until Ctrl-C: {dashboard}",
            application.attempts()
        ),
        Err(error) => errln!("tollgate: the attacker: {error}"),
    }
}

/// Builds the gate and its dashboard at the wanted ports, or at any free ones. Warnings are left out: they would be about
/// a file that is not the user's.
fn build_app(port: u16, upstream: SocketAddr, token: &str) -> anyhow::Result<Option<App>> {
    let at = |port: u16, admin: u16| {
        let gate = config((Ipv4Addr::LOCALHOST, port).into(), upstream);
        let admin = format!("\n[admin]\nlisten = \"http://127.0.0.1:{admin}\"\ntoken  = \"{token}\"\n");
        Sources::from_text("demo.toml", &(gate + &admin))
    };
    for sources in [at(port, ADMIN_PORT), at(port, 0), at(0, 0)] {
        let loaded = load(&sources);
        let Some(mut config) = loaded.config else {
            loaded.diagnostics.iter().for_each(report);
            return Ok(None);
        };
        // The application and its attacker live in this process, too, and its standard output is for people.
        config.process.sandbox = false;
        config.log.access = None;
        match App::build(config, sources, Inherited::default()) {
            Ok(app) => return Ok(Some(app)),
            Err(error) => tracing::warn!("{error}"),
        }
    }
    anyhow::bail!("no free port on 127.0.0.1")
}

/// 32 hexadecimal digits.
fn random_token() -> String {
    // The standard library seeds each `RandomState` from the operating system's randomness.
    let random = || RandomState::new().hash_one(0_u8);
    format!("{:016x}{:016x}", random(), random())
}

/// Opens the dashboard in the browser of the desktop, if a person at one started this.
fn open_browser(dashboard: &str) {
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let quiet = || Stdio::null();
    if has_desktop && io::stdout().is_terminal() {
        // Without a browser the address is still printed.
        let _ =
            Command::new("xdg-open").arg(dashboard).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
    }
}

fn print_what_to_try(gate: SocketAddr, application: SocketAddr, dashboard: &str, attacked: bool) {
    outln!(
        "An old application with a sign-in form   http://{application}/\n\
         The same behind the gate                 http://{gate}/\n\
         The gate's dashboard                     {dashboard}\n\n\
         The gate's file:\n"
    );
    config(gate, application).lines().for_each(|line| outln!("    {line}"));
    outln!("");
    if attacked {
        outln!(
            "The attacker tries at most 300 passwords from three addresses; at most {MOST_ADMITTED} reach the application.\n\
             Sign in meanwhile: alice, wonderland. Ctrl-C ends the demonstration."
        );
    } else {
        outln!(
            "Try in a browser: the sixth wrong password in a row is refused, with the time to wait.\n\
             The right one is alice, wonderland. In a terminal:\n\n    \
             for i in 1 2 3 4 5 6; do curl -si -d 'user=alice&password=guess' http://{gate}/login | head -n 1; done\n\n\
             With --attack an attacker tries 300 passwords. Ctrl-C ends it."
        );
    }
}

/// The configuration of the demonstration's gate.
///
/// Five attempts at once and one more every twelve seconds: the sixth wrong password in a row is refused, and the
/// wait is short enough to watch.
#[must_use]
pub fn config(listen: SocketAddr, application: SocketAddr) -> String {
    format!(
        "listen   = \"http://{listen}\"\n\
         upstream = \"http://{application}\"\n\
         \n\
         [route.login]\n\
         match = \"POST /login\"\n\
         \n\
         [limit.address]\n\
         rate = \"5 per 1m\"\n"
    )
}

/// The most passwords of an attack that the gate admits: three addresses have five tokens each, and get two more in the
/// 30 seconds that an attack may last.
pub const MOST_ADMITTED: u32 = 3 * (5 + 30 / 12);
/// The port of the dashboard, if it is free.
const ADMIN_PORT: u16 = 9180;

/// Shows the progress of the attack on standard error: on a terminal one line that is overwritten, elsewhere every
/// fiftieth.
pub fn show(tally: &Tally) {
    let mut out = io::stderr().lock();
    // Standard error may be closed; then there is no reader.
    let _ = if out.is_terminal() {
        write!(out, "\r{tally}  ")
    } else if tally.tried.is_multiple_of(50) {
        writeln!(out, "{tally}")
    } else {
        Ok(())
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_both_ends_as_toml() {
        let text = config(([127, 0, 0, 1], 8080).into(), "[::1]:8081".parse().unwrap());
        assert!(toml::de::DeTable::parse(&text).is_ok(), "{text}");
        assert!(text.starts_with("listen   = \"http://127.0.0.1:8080\"\nupstream = \"http://[::1]:8081\"\n"));
    }
}
