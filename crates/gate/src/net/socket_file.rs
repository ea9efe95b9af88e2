//! The file of a Unix socket that the gate listens at, and who may connect to it: a process needs the right to write to it.
//!
//! By default the umask decides for clients, and only this user may connect to the admin API.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// A Unix socket to listen at.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SocketFile {
    /// Its path.
    pub path: PathBuf,
    /// Its permissions, such as `0o660`.
    pub mode: Option<u32>,
    /// Its owner, by name or number.
    pub user: Option<String>,
    /// Its group, by name or number.
    pub group: Option<String>,
}

impl SocketFile {
    /// Gives the file its owner, its group and its permissions; `mode` where the configuration names none.
    ///
    /// # Errors
    /// If there is no such user or group, or this user may not give the file away.
    pub(super) fn admit(&self, mode: Option<u32>) -> io::Result<()> {
        let user = self.user.as_deref().map(|name| id(name, "user", Path::new(PASSWD))).transpose()?;
        let group = self.group.as_deref().map(|name| id(name, "group", Path::new(GROUP))).transpose()?;
        // First the permissions: the file may belong to another user afterwards.
        if let Some(mode) = self.mode.or(mode) {
            std::fs::set_permissions(&self.path, Permissions::from_mode(mode))?;
        }
        match (user, group) {
            (None, None) => Ok(()),
            (user, group) => chown(&self.path, user, group).map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("{error}: only root gives a socket to another user or group, but its own groups"),
                )
            }),
        }
    }
}

impl<P: Into<PathBuf>> From<P> for SocketFile {
    fn from(path: P) -> Self {
        Self { path: path.into(), ..Self::default() }
    }
}

/// The number of a user or group, by the file of the system (passwd(5), group(5)).
fn id(name: &str, what: &str, file: &Path) -> io::Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let text = std::fs::read_to_string(file)?;
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    };
    text.lines()
        .find_map(of_line)
        .ok_or_else(|| io::Error::other(format!("there is no {what} `{name}` in {}", file.display())))
}

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_and_a_number_is_taken() {
        assert_eq!(id("root", "user", Path::new(PASSWD)).unwrap(), 0);
        assert_eq!(id("1234", "group", Path::new(GROUP)).unwrap(), 1234);
        let unknown = id("no-such-name", "group", Path::new(GROUP)).unwrap_err().to_string();
        assert_eq!(unknown, "there is no group `no-such-name` in /etc/group");
    }
}
