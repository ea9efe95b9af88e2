//! The user of a unit, and which files it can read by their permissions.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use super::settings::UnitSettings;

/// The user that runs the gate.
#[derive(Debug)]
pub(super) enum UnitUser {
    Root,
    /// A user that exists while the unit runs, and owns nothing outside the unit's directories.
    Dynamic {
        groups: Vec<u32>,
    },
    Named {
        uid: u32,
        groups: Vec<u32>,
    },
}

impl UnitUser {
    pub(super) fn from_settings(settings: &UnitSettings) -> Self {
        let named = ["Group", "SupplementaryGroups"].into_iter().flat_map(|key| settings.words(key));
        let mut groups: Vec<u32> = named.filter_map(group).collect();
        match settings.last("User") {
            _ if settings.is_on("DynamicUser") => Self::Dynamic { groups },
            None | Some("root" | "0") => Self::Root,
            Some(user) => {
                groups.extend(numbers("id", &["-G", user]));
                match numbers("id", &["-u", user])[..] {
                    [uid] => Self::Named { uid, groups },
                    _ => Self::Dynamic { groups },
                }
            }
        }
    }

    /// Whether it may enter all directories of the path, and read the file. One that is not there is not judged.
    pub(super) fn can_read(&self, path: &Path) -> bool {
        let Ok(path) = fs::canonicalize(path) else { return true };
        path.ancestors().skip(1).all(|directory| self.has_right(directory, ENTER))
            && self.has_right(&path, READ)
    }

    fn has_right(&self, path: &Path, right: u32) -> bool {
        let Ok(about) = fs::metadata(path) else { return true };
        let (uid, groups) = match self {
            Self::Root => return true,
            Self::Dynamic { groups } => (None, groups),
            Self::Named { uid, groups } => (Some(*uid), groups),
        };
        let shift = match () {
            () if uid == Some(about.uid()) => 6,
            () if groups.contains(&about.gid()) => 3,
            () => 0,
        };
        about.mode() >> shift & right != 0
    }
}

fn group(name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let file = fs::read_to_string("/etc/group").unwrap_or_default();
    let mut lines = file.lines().map(|line| line.split(':').collect::<Vec<_>>());
    lines.find(|fields| fields[0] == name).and_then(|fields| fields.get(2)?.parse().ok())
}

/// The numbers that a program prints, which also knows users outside `/etc/passwd`.
fn numbers(program: &str, arguments: &[&str]) -> Vec<u32> {
    let printed =
        Command::new(program).args(arguments).output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&printed).split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

const ENTER: u32 = 0o1;
const READ: u32 = 0o4;
