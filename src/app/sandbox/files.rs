//! Which files this thread may still open, and to which ports it may connect (landlock).
//!
//! Files that are replaced by renaming are other files, so what may be written or read again is the directory that they are
//! in. What is open already stays open.

use std::env;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};

use crate::config::Config;
use crate::net::listener::Address;
use crate::observe::settings::AccessTarget;

/// What stays open to the background beside what every process needs.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Read.
    read: Vec<PathBuf>,
    /// Written, made and removed.
    write: Vec<PathBuf>,
    /// Only removed: sockets.
    remove: Vec<PathBuf>,
}

impl Places {
    pub(super) fn of(config: &Config) -> Self {
        let mut read: Vec<PathBuf> = SYSTEM.map(PathBuf::from).into();
        // Where it is a link, as with systemd-resolved, what it leads to is replaced over there.
        read.extend(real_directory(Path::new("/etc/resolv.conf")));
        if config.store.address.is_shared() {
            let named = CREDENTIALS.iter().filter_map(env::var_os).map(PathBuf::from);
            for path in named.chain(config.store.address.files()) {
                read.extend(real_directory(&path));
                read.push(directory_of(&path));
            }
            read.extend(env::home_dir().map(|home| home.join(".aws")));
        }
        let log = match &config.log.access {
            Some(AccessTarget::File(path)) => Some(path),
            Some(AccessTarget::StandardOutput) | None => None,
        };
        let write = config.store.snapshot.iter().chain(log).map(|path| writable(path)).collect();
        let sockets = config.listen.iter().chain(&config.admin).filter_map(|address| match address {
            Address::Unix(path) => Some(directory_of(path)),
            _ => None,
        });
        Self { read, write, remove: sockets.collect() }
    }
}

/// Leaves the background these places, and no port to listen at.
pub(super) fn confine(places: &Places) -> Result<RestrictionStatus, RulesetError> {
    let write = AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::RemoveFile | AccessFs::Truncate | read();
    ruleset()?
        .handle_access(AccessNet::BindTcp)?
        .create()?
        .add_rules(path_beneath_rules(OWN, read()))?
        .add_rules(path_beneath_rules(&places.read, read()))?
        .add_rules(path_beneath_rules(&places.write, write))?
        .add_rules(path_beneath_rules(&places.remove, AccessFs::RemoveFile))?
        .restrict_self()
}

/// Leaves a worker what it needs to tell of a panic, and connections to these ports.
pub(super) fn confine_worker(ports: &[u16]) -> Result<RestrictionStatus, RulesetError> {
    let connect = ports.iter().map(|port| Ok::<_, RulesetError>(NetPort::new(*port, AccessNet::ConnectTcp)));
    ruleset()?
        .handle_access(AccessNet::from_all(ABI::V4))?
        .scope(Scope::from_all(ABI::V6))?
        .create()?
        .add_rules(path_beneath_rules(OWN, read()))?
        .add_rules(connect)?
        .restrict_self()
}

/// A reload opens these again, and what the gate could read as it started it may not be able to read without capabilities.
pub(super) fn warn_of_unreadable(files: &[PathBuf]) {
    for path in files.iter().filter(|path| path.is_file()) {
        if let Err(error) = std::fs::File::open(path) {
            tracing::warn!("without capabilities {} cannot be read again: {error}", path.display());
        }
    }
}

fn ruleset() -> Result<Ruleset, RulesetError> {
    Ruleset::default().handle_access(AccessFs::from_all(ABI::V5))
}

fn read() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::ReadDir
}

/// The directory of a file that is made anew or renamed into place; of a device or a pipe only itself.
fn writable(path: &Path) -> PathBuf {
    match std::fs::metadata(path) {
        Ok(about) if !about.is_file() => path.to_owned(),
        _ => directory_of(path),
    }
}

fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn real_directory(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()?.parent().map(Path::to_owned)
}

/// What any thread may read: the program and its libraries, for traces of a panic, and what it is told about itself.
const OWN: [&str; 9] = [
    "/proc/self",
    "/proc/stat",
    "/sys/devices/system/cpu",
    "/dev/urandom",
    "/proc/self/exe",
    "/usr/lib",
    "/usr/lib64",
    "/lib",
    "/lib64",
];
/// What the background reads to resolve names, to check the certificates of stores and to know how much memory it may take.
const SYSTEM: [&str; 7] = [
    "/etc",
    "/sys/fs/cgroup",
    "/usr/local/lib",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/var/lib/ca-certificates",
    "/run/systemd/resolve",
];
/// Variables that name files which stores read when they connect.
const CREDENTIALS: [&str; 6] = [
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];
