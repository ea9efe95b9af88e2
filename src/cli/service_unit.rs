//! The systemd unit that runs a configuration: which files its user can read, and which directories it makes.
//!
//! Root can read every file, and the unit's user cannot. When root runs `check` or `doctor`, they judge for the gate, by the
//! unit files that systemd has (`systemctl cat`). Access lists and mounts are left to the gate.

mod settings;
mod user;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::settings::UnitSettings;
use self::user::UnitUser;
use crate::config::{Config, PassedFile, Sources};

/// A unit, as far as its gate depends on it.
#[derive(Debug)]
pub(super) struct ServiceUnit {
    user: UnitUser,
    credentials: Vec<PassedFile>,
    state: Option<PathBuf>,
    logs: Option<PathBuf>,
    /// All directories that systemd makes for it.
    made: Vec<PathBuf>,
    /// The number of files that it may open.
    pub(super) open_files: Option<u64>,
}

/// Why the unit's gate would not start, although root finds the configuration valid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnitFault {
    /// A file of the configuration itself.
    #[error("the user of {NAME} cannot read {}", .0.display())]
    OwnFile(PathBuf),
    /// A file that the configuration names.
    #[error("the user of {NAME} cannot read {}", .0.display())]
    NamedFile(PathBuf),
    #[error("{NAME} loads the credential {}, and there is no such file", .0.display())]
    MissingCredential(PathBuf),
}

impl UnitFault {
    /// How to fix it.
    pub(super) fn fix(&self) -> String {
        match self {
            Self::OwnFile(path) => format!("`chmod a+r {}`, and let all enter its directory", path.display()),
            Self::NamedFile(path) => {
                let name = path.file_name().unwrap_or_default().display();
                let path = path.display();
                format!(
                    "`systemctl edit tollgate`, and write LoadCredential={name}:{path} below [Service]; \
                     the configuration names it `{name}`"
                )
            }
            Self::MissingCredential(_) => {
                "make the file, or remove its LoadCredential= (`systemctl cat tollgate` shows where it is)"
                    .into()
            }
        }
    }
}

impl ServiceUnit {
    /// The unit that runs this file; `None` if there is none, or root does not ask.
    pub(super) fn of(sources: &Sources) -> Option<Self> {
        let path = fs::canonicalize(sources.path.as_deref()?).ok()?;
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let shown = Command::new("systemctl").args(["cat", NAME]).output().ok()?;
        let settings = UnitSettings::parse(&String::from_utf8_lossy(&shown.stdout));
        let runs =
            settings.words("ExecStart").any(|word| fs::canonicalize(word).is_ok_and(|file| file == path));
        runs.then(|| Self::from_settings(&settings))
    }

    fn from_settings(settings: &UnitSettings) -> Self {
        let directories = |key, parent: &str| -> Vec<PathBuf> {
            // A link may follow the name, as in `tollgate:gate`.
            let names = settings.words(key).filter_map(|word| word.split(':').next());
            names.map(|name| Path::new(parent).join(name)).collect()
        };
        let state = directories("StateDirectory", "/var/lib");
        let logs = directories("LogsDirectory", "/var/log");
        let runtime = directories("RuntimeDirectory", "/run");
        let credential = |word: &str| {
            let (name, path) = word.split_once(':')?;
            Some(PassedFile { name: name.to_owned(), path: path.into() })
        };
        Self {
            user: UnitUser::from_settings(settings),
            credentials: settings.words("LoadCredential").filter_map(credential).collect(),
            state: state.first().cloned(),
            logs: logs.first().cloned(),
            made: [state, logs, runtime].concat(),
            open_files: settings.last("LimitNOFILE").and_then(|limit| limit.rsplit(':').next()?.parse().ok()),
        }
    }

    /// The sources as the unit's gate reads them.
    pub(super) fn apply_to(&self, mut sources: Sources) -> Sources {
        for (variable, directory) in [("STATE_DIRECTORY", &self.state), ("LOGS_DIRECTORY", &self.logs)] {
            let value = directory.iter().map(|directory| directory.display().to_string());
            sources.environment.extend(value.map(|value| (variable.to_owned(), value)));
        }
        sources.passed.clone_from(&self.credentials);
        sources
    }

    /// Why the gate would not start.
    pub(super) fn faults(&self, sources: &Sources, config: &Config) -> Vec<UnitFault> {
        let paths = self.credentials.iter().map(|credential| credential.path.clone());
        let missing = paths.filter(|path| path.is_absolute() && !path.exists());
        let own = sources.own_files().as_read();
        let unreadable = |path: &PathBuf| !self.user.can_read(path);
        let is_passed = |path: &PathBuf| {
            path.starts_with(CREDENTIALS)
                || self.credentials.iter().any(|credential| credential.path == *path)
        };
        let named =
            config.process.files.iter().filter(|path| !own.contains(path) && !is_passed(path)).cloned();
        let named = named.filter(unreadable).map(UnitFault::NamedFile).collect::<Vec<_>>();
        let own = own.into_iter().filter(unreadable).map(UnitFault::OwnFile);
        missing.map(UnitFault::MissingCredential).chain(own).chain(named).collect()
    }

    /// Whether systemd makes the directory, so that it need not exist before the start.
    pub(super) fn makes(&self, directory: &Path) -> bool {
        self.made.iter().any(|made| directory.starts_with(made))
    }
}

pub(super) const NAME: &str = "tollgate.service";
/// The directories of credentials, as root sees them when the unit reloads.
const CREDENTIALS: &str = "/run/credentials";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::config::load;

    const UNIT: &str = "\
# /usr/lib/systemd/system/tollgate.service
[Service]
ExecStart=/usr/bin/tollgate run -c /etc/tollgate/config.toml
DynamicUser=yes
RuntimeDirectory=tollgate
StateDirectory=tollgate
LogsDirectory=tollgate
LimitNOFILE=1024:262144
";

    fn unit(more: &str) -> ServiceUnit {
        ServiceUnit::from_settings(&UnitSettings::parse(&format!("{UNIT}{more}")))
    }

    /// A configuration with a token of this mode, in a directory that everybody may enter.
    struct PackagedFiles(PathBuf);

    impl PackagedFiles {
        fn with_token(name: &str, mode: u32) -> Self {
            let directory = std::env::temp_dir().join(format!("tollgate-unit-{}-{name}", std::process::id()));
            fs::create_dir_all(&directory).unwrap();
            let files = Self(directory);
            fs::write(
                files.path("config.toml"),
                "listen = \"8080\"\nupstream = \"http://127.0.0.1:8081\"\n[route.login]\nmatch = \"POST /login\"\n\
                 [limit.address]\nrate = \"10 per 5m\"\n[log]\naccess = \"access.log\"\n\
                 [store]\nsnapshot = \"buckets\"\n\
                 [admin]\nlisten = \"http://127.0.0.1:9180\"\ntoken = \"${file:admin.token}\"\n",
            )
            .unwrap();
            fs::write(files.path("admin.token"), "t".repeat(44)).unwrap();
            for (file, mode) in [(".", 0o755), ("config.toml", 0o644), ("admin.token", mode)] {
                fs::set_permissions(files.path(file), fs::Permissions::from_mode(mode)).unwrap();
            }
            files
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        fn faults(&self, unit: &ServiceUnit) -> Vec<UnitFault> {
            let sources = unit.apply_to(Sources::from_file(&self.path("config.toml")).unwrap());
            let config = load(&sources).config.unwrap();
            unit.faults(&sources, &config)
        }
    }

    impl Drop for PackagedFiles {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_token_for_its_owner_alone_is_a_fault_unless_the_unit_passes_it_on() {
        let files = PackagedFiles::with_token("token", 0o600);
        let token = files.path("admin.token");
        let [fault] = &files.faults(&unit(""))[..] else { unreachable!("one fault") };
        assert_eq!(*fault, UnitFault::NamedFile(token.clone()));
        let passes = format!("LoadCredential=admin.token:{}", token.display());
        assert!(fault.fix().contains(&passes), "{}", fault.fix());
        assert_eq!(files.faults(&unit(&passes)), []);
        assert_eq!(PackagedFiles::with_token("open", 0o644).faults(&unit("")), []);
    }

    #[test]
    fn a_unit_of_root_reads_everything() {
        let files = PackagedFiles::with_token("root", 0o600);
        assert_eq!(files.faults(&unit("DynamicUser=no\n")), []);
    }

    #[test]
    fn a_configuration_that_the_units_user_cannot_read_is_a_fault() {
        let files = PackagedFiles::with_token("own", 0o644);
        let file = files.path("config.toml");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(files.faults(&unit("")), [UnitFault::OwnFile(file)]);
    }

    #[test]
    fn a_credential_whose_file_is_gone_is_a_fault() {
        let files = PackagedFiles::with_token("gone", 0o644);
        let missing = files.path("device.keys");
        let unit = unit(&format!("LoadCredential=device.keys:{}\n", missing.display()));
        assert_eq!(files.faults(&unit), [UnitFault::MissingCredential(missing)]);
    }

    #[test]
    fn names_mean_the_units_credentials_and_directories() {
        let files = PackagedFiles::with_token("elsewhere", 0o600);
        let elsewhere = files.path("operators.secret");
        fs::rename(files.path("admin.token"), &elsewhere).unwrap();
        let unit = unit(&format!("LoadCredential=admin.token:{}\n", elsewhere.display()));
        assert_eq!(files.faults(&unit), []);
        let sources = unit.apply_to(Sources::from_file(&files.path("config.toml")).unwrap());
        let config = load(&sources).config.unwrap();
        let log = format!("{:?}", config.log.access);
        assert!(log.contains("/var/log/tollgate/access.log"), "{log}");
        assert_eq!(config.store.snapshot.as_deref(), Some(Path::new("/var/lib/tollgate/buckets")));
    }

    #[test]
    fn directories_of_the_unit_need_not_exist() {
        let unit = unit("");
        for made in ["/run/tollgate", "/var/lib/tollgate", "/var/log/tollgate/archive"] {
            assert!(unit.makes(Path::new(made)), "{made}");
        }
        assert!(!unit.makes(Path::new("/run/other")) && !unit.makes(Path::new("/run/tollgates")));
        assert_eq!(unit.open_files, Some(262_144));
    }
}
