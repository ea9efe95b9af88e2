//! Whether the gate could listen, and which proxies it trusts.
//!
//! A running gate holds its ports: then another program "listens there", which `tollgate status` tells apart.

use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::Symptom;
use crate::cli::service_unit::ServiceUnit;
use crate::config::Config;
use crate::net::listener::{Callers, ListenAddress};

/// Whether each address is free, or a gate has it.
pub(super) fn look(config: &Config, unit: Option<&ServiceUnit>) -> Vec<Symptom> {
    let running = is_running(config);
    let operators = config.operators.admin.iter().map(|address| ("admin.listen", address));
    let key = |callers: Callers| if callers.are_clients() { "listen" } else { "endpoint" };
    let all = config.listens().map(|(callers, address)| (key(callers), address)).chain(operators);
    let listener = |(key, address)| listener(format!("{key} {address}"), address, running, unit);
    all.map(listener).collect()
}

/// Whether a gate answers at the admin socket of this configuration.
fn is_running(config: &Config) -> bool {
    config.operators.admin.iter().any(|address| match address {
        ListenAddress::Unix(file) => UnixStream::connect(&file.path).is_ok(),
        _ => false,
    })
}

fn listener(place: String, address: &ListenAddress, running: bool, unit: Option<&ServiceUnit>) -> Symptom {
    match address {
        ListenAddress::Tcp(at) | ListenAddress::Tls(at) => tcp(place, *at, running),
        ListenAddress::Unix(file) => unix(place, &file.path, unit),
        ListenAddress::Systemd { name, .. } => {
            Symptom::good(place, format!("a socket unit has to say FileDescriptorName={name}"))
        }
    }
}

fn tcp(place: String, at: SocketAddr, running: bool) -> Symptom {
    match TcpListener::bind(at) {
        Ok(_) => Symptom::good(place, "free"),
        Err(error) => refused(place, at, &error, running),
    }
}

fn refused(place: String, at: SocketAddr, error: &Error, running: bool) -> Symptom {
    match error.kind() {
        ErrorKind::AddrInUse if running => Symptom::good(place, "in use, and a gate of this file runs"),
        ErrorKind::AddrInUse => {
            let mend = format!(
                "`ss -ltnp 'sport = :{}'` names the program: stop it, or choose another port",
                at.port()
            );
            Symptom::bad(place, "another program listens there", mend)
        }
        ErrorKind::PermissionDenied => {
            let mend = "AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit, or \
                        `setcap cap_net_bind_service=+ep` on the program, or a port from 1024 on";
            Symptom::bad(place, "this user may not bind it", mend)
        }
        ErrorKind::AddrNotAvailable => {
            let mend = "write an address of this machine (`ip address`), or [::] for all of them";
            Symptom::bad(place, "this machine does not have that address", mend)
        }
        _ => Symptom::bad(place, error.to_string(), "choose another address"),
    }
}

fn unix(place: String, path: &Path, unit: Option<&ServiceUnit>) -> Symptom {
    let directory = path.parent().unwrap_or(Path::new("."));
    if unit.is_some_and(|unit| unit.makes(directory)) {
        return Symptom::good(place, format!("the unit makes {}", directory.display()));
    }
    match directory.is_dir() {
        true => Symptom::good(place, "its directory is there"),
        false => {
            let shown = directory.display();
            let mend =
                format!("make {shown}: RuntimeDirectory= in the unit, or `install -d -o USER {shown}`");
            Symptom::bad(place, format!("there is no directory {shown}"), mend)
        }
    }
}

/// A gate that hears only its own machine has a proxy in front, which it has to trust.
pub(super) fn trust(config: &Config) -> Vec<Symptom> {
    let is_local = |address: &ListenAddress| match address {
        ListenAddress::Tcp(at) | ListenAddress::Tls(at) => at.ip().is_loopback(),
        ListenAddress::Unix(_) => true,
        ListenAddress::Systemd { .. } => false,
    };
    let believes = config.client.trust_unix || !config.client.trust.is_empty();
    vec![if config.front.listen.is_empty() {
        Symptom::good("client.trust", "those who may ask at an endpoint name the client")
    } else if !believes && config.front.listen.iter().all(is_local) {
        let words = "the gate listens on this machine alone and trusts no proxy: all visitors are one client";
        Symptom::doubtful("client.trust", words, "name the proxy, as in trust = [\"127.0.0.1\", \"::1\"]")
    } else if believes {
        Symptom::good("client.trust", "a proxy in front may name the client")
    } else {
        Symptom::good("client.trust", "no proxy is trusted: the client is the address that connects")
    }]
}
