//! Which files this thread may still open, and to which ports it may connect (landlock).
//!
//! A file that is replaced by renaming is another file, so a file that is opened again needs its directory. Open files
//! stay open.

use std::env;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};

use crate::config::Config;
use crate::net::listener::ListenAddress;
use crate::observe::settings::{DecisionLog, LogTarget};

/// Paths that the background may use next to those of [`READ_BY_ALL`].
#[derive(Debug, Default)]
pub(super) struct AllowedPaths {
    /// To read.
    read: Vec<PathBuf>,
    /// To write, create and remove while the gate starts. Later the [broker](super::Broker) does that.
    write: Vec<PathBuf>,
    /// To remove: the sockets of listeners.
    remove: Vec<PathBuf>,
}

impl AllowedPaths {
    pub(super) fn of(config: &Config) -> Self {
        let mut read: Vec<PathBuf> = READ_BY_BACKGROUND.map(PathBuf::from).into();
        read.extend(resolver());
        if config.store.address.is_shared() {
            // Credentials, tokens and certificates of stores, which read them when they connect.
            read.extend(directories_of_environment());
            read.extend(config.store.address.files().flat_map(|path| directories(&path)));
            read.extend(env::var_os("SSL_CERT_DIR").map(PathBuf::from));
            read.extend(env::home_dir().map(|home| home.join(".aws")));
        }
        let decisions = match &config.log.decisions {
            DecisionLog::Every(target) => Some(target),
            DecisionLog::Summary | DecisionLog::Off => None,
        };
        let logs = config.log.access.iter().chain(decisions).filter_map(|target| match target {
            LogTarget::File(path) => Some(path),
            // Landlock does not concern itself with datagrams.
            LogTarget::StandardOutput | LogTarget::Syslog(_) => None,
        });
        let files = config.store.snapshot.iter().chain(&config.operators.audit);
        let write = files.chain(logs).flat_map(|path| writable(path)).collect();
        let addresses = config.listens().map(|(_, address)| address).chain(&config.operators.admin);
        let sockets = addresses.filter_map(|address| match address {
            ListenAddress::Unix(file) => Some(directory_of(&file.path)),
            _ => None,
        });
        Self { read, write, remove: sockets.collect() }
    }
}

/// Leaves the background these paths, and no port to listen at.
pub(super) fn confine(paths: &AllowedPaths) -> Result<RestrictionStatus, RulesetError> {
    let write = AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::RemoveFile | AccessFs::Truncate | read();
    ruleset()?
        .handle_access(AccessNet::BindTcp)?
        .create()?
        .add_rules(path_beneath_rules(READ_BY_ALL, read()))?
        .add_rules(path_beneath_rules(preloaded(), read()))?
        .add_rules(path_beneath_rules(&paths.read, read()))?
        .add_rules(path_beneath_rules(&paths.write, write))?
        .add_rules(path_beneath_rules(&paths.remove, AccessFs::RemoveFile))?
        .restrict_self()
}

/// Leaves a worker the files that the report of a panic needs, and connections to these ports.
pub(super) fn confine_worker(ports: &[u16]) -> Result<RestrictionStatus, RulesetError> {
    let connect = ports.iter().map(|port| Ok::<_, RulesetError>(NetPort::new(*port, AccessNet::ConnectTcp)));
    ruleset()?
        .handle_access(AccessNet::from_all(ABI::V4))?
        .scope(Scope::from_all(ABI::V6))?
        .create()?
        .add_rules(path_beneath_rules(READ_BY_ALL, read()))?
        .add_rules(path_beneath_rules(preloaded(), read()))?
        .add_rules(connect)?
        .restrict_self()
}

/// Warns of files that the gate could read at its start but cannot reread without capabilities: a reload would fail.
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

/// The directory of a file that is created or renamed into place, also behind a link; for a device or a pipe only
/// itself.
fn writable(path: &Path) -> Vec<PathBuf> {
    match std::fs::metadata(path) {
        Ok(about) if !about.is_file() => vec![path.to_owned()],
        _ => directories(path),
    }
}

/// The directories of files that environment variables name.
fn directories_of_environment() -> Vec<PathBuf> {
    let values = env::vars_os().map(|(_, value)| PathBuf::from(value));
    values.filter(|path| path.is_absolute() && path.is_file()).flat_map(|path| directories(&path)).collect()
}

/// The files of a preloaded library (`LD_PRELOAD`), which may run on any thread.
fn preloaded() -> Vec<PathBuf> {
    env::var_os("LD_PRELOAD").map_or_else(Vec::new, |_| directories_of_environment())
}

/// The directory as named, and the one that it leads to.
fn directories(path: &Path) -> Vec<PathBuf> {
    real_directory(path).into_iter().chain([directory_of(path)]).collect()
}

fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The directory of `/etc/resolv.conf` behind its links. A service may replace its directory, so the parent counts,
/// unless that is `/` or `/run`.
fn resolver() -> Option<PathBuf> {
    let directory = real_directory(Path::new("/etc/resolv.conf"))?;
    let above = directory.parent().filter(|above| ![Path::new("/"), Path::new("/run")].contains(above));
    Some(above.map_or_else(|| directory.clone(), Path::to_owned))
}

fn real_directory(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()?.parent().map(Path::to_owned)
}

/// What any thread may read: the program and its libraries, for backtraces, and what `/proc` says about the process.
const READ_BY_ALL: [&str; 9] = [
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
/// What the background reads to resolve names, to check the certificates of stores, and to learn its memory limit.
const READ_BY_BACKGROUND: [&str; 6] = [
    "/etc",
    "/sys/fs/cgroup",
    "/usr/local/lib",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/var/lib/ca-certificates",
];
