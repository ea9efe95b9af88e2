//! How much memory this process may use, and how much it uses.
//!
//! The limits are those of its control group (version 2 or 1) and `RLIMIT_DATA`. Groups above its own are left out: the
//! gate cannot free what others use there. The charge of a group includes the page cache, which the kernel takes back
//! before it kills a process, so the page cache is subtracted. Where other processes of the group use most of it, the
//! limit is ignored: to refuse clients would free nothing.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

/// Memory used and memory allowed, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemoryUsage {
    pub(super) used: u64,
    /// At least 1.
    pub(super) limit: u64,
}

/// The limits of this process.
#[derive(Debug)]
pub(super) struct MemoryLimits {
    group: Option<Cgroup>,
}

/// A control group and the names of its files.
#[derive(Debug, PartialEq, Eq)]
struct Cgroup {
    folder: PathBuf,
    names: &'static CgroupFiles,
}

#[derive(Debug, PartialEq, Eq)]
struct CgroupFiles {
    limit: &'static str,
    used: &'static str,
    /// The page cache, in `memory.stat`.
    files: [&'static str; 2],
}

impl MemoryUsage {
    /// Whether at least this share of the limit is used, in percent.
    pub(super) fn exceeds(self, percent: u64) -> bool {
        u128::from(self.used) * 100 >= u128::from(self.limit) * u128::from(percent)
    }
}

impl MemoryLimits {
    pub(super) fn of_this_process() -> Self {
        let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self { group: Cgroup::of(&membership, Path::new("/sys/fs/cgroup")) }
    }

    /// The limit with the largest used share; `None` without a limit.
    pub(super) fn tightest(&self) -> Option<MemoryUsage> {
        let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let bytes = |pages: u64| pages.saturating_mul(rustix::param::page_size() as u64);
        let resident = field(&pages, RESIDENT).map_or(0, bytes);
        let group = self.group.as_ref().and_then(|group| group.usage(resident));
        let share = |usage: &MemoryUsage| u128::from(usage.used) * 1000 / u128::from(usage.limit);
        let data = field(&pages, DATA).map(bytes).and_then(of_data);
        group.into_iter().chain(data).max_by_key(share)
    }
}

impl Cgroup {
    /// The group that `/proc/self/cgroup` names, below `mounted`. In a container its own group may be the root of the
    /// mount, whatever its name outside.
    fn of(membership: &str, mounted: &Path) -> Option<Self> {
        let path_of = |controller: &str| {
            let mut lines = membership.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
            lines.find(|(names, _)| names.split(',').any(|name| name == controller)).map(|(_, path)| path)
        };
        let at = |root: PathBuf, path: &str, names: &'static CgroupFiles| {
            let folders = [root.join(path.trim_start_matches('/')), root];
            let is_there = |folder: &PathBuf| folder.join(names.limit).is_file();
            folders.into_iter().find(is_there).map(|folder| Self { folder, names })
        };
        let first = path_of("memory").and_then(|path| at(mounted.join("memory"), path, &VERSION_1));
        first.or_else(|| at(mounted.to_owned(), path_of("")?, &VERSION_2))
    }

    /// `resident` is the resident memory of this process, in bytes.
    fn usage(&self, resident: u64) -> Option<MemoryUsage> {
        // Version 2 writes `max` where there is no limit.
        let limit = self.number(self.names.limit).filter(|&limit| (1..NO_LIMIT).contains(&limit))?;
        let charged = MemoryUsage { used: self.number(self.names.used)?, limit };
        // Reading `memory.stat` costs the kernel some work, and mostly it does not matter.
        if !charged.exceeds(MATTERS) {
            return Some(charged);
        }
        let stat = fs::read_to_string(self.folder.join("memory.stat")).unwrap_or_default();
        let part = |name| part_of(&stat, name).unwrap_or(0);
        let files: u64 = self.names.files.into_iter().map(part).sum();
        let own = resident.saturating_add(part(SOCKETS));
        let is_ours = MemoryUsage { used: own, limit }.exceeds(OWN_SHARE);
        is_ours.then_some(MemoryUsage { used: charged.used.saturating_sub(files), limit })
    }

    fn number(&self, file: &str) -> Option<u64> {
        fs::read_to_string(self.folder.join(file)).ok()?.trim().parse().ok()
    }
}

/// Usage of private writable memory, which `ulimit -d` and systemd's `LimitDATA` limit.
fn of_data(used: u64) -> Option<MemoryUsage> {
    let limit = getrlimit(Resource::Data).current.filter(|&limit| limit > 0)?;
    Some(MemoryUsage { used, limit })
}

/// A number of `/proc/self/statm` (proc(5)), in pages.
fn field(statm: &str, number: usize) -> Option<u64> {
    statm.split_ascii_whitespace().nth(number)?.parse().ok()
}

/// A line of `memory.stat`.
fn part_of(stat: &str, name: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

const VERSION_2: CgroupFiles =
    CgroupFiles { limit: "memory.max", used: "memory.current", files: ["inactive_file", "active_file"] };
const VERSION_1: CgroupFiles = CgroupFiles {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    files: ["total_inactive_file", "total_active_file"],
};
/// Version 2: memory of sockets, which is the gate's as well.
const SOCKETS: &str = "sock";
const RESIDENT: usize = 1;
const DATA: usize = 5;
/// Percent of the limit from which the exact figures matter.
const MATTERS: u64 = 50;
/// Percent of the limit that the gate itself must use.
const OWN_SHARE: u64 = 25;
/// Version 1 writes a number near 2^63 where there is no limit.
const NO_LIMIT: u64 = 1 << 60;

#[cfg(test)]
mod tests;
