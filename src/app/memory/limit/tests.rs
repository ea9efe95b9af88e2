//! Control-group files of both versions, in a folder of the test's own, and those of this machine.

use super::*;

/// A root of control groups; removed with the test.
struct Mounted(PathBuf);

impl Mounted {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("tollgate-groups-{name}-{}", std::process::id())))
    }

    fn with(self, folder: &str, files: &[(&str, &str)]) -> Self {
        let folder = self.0.join(folder);
        fs::create_dir_all(&folder).unwrap();
        files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
        self
    }

    fn usage(&self, membership: &str) -> Option<MemoryUsage> {
        Cgroup::of(membership, &self.0)?.usage(50_000)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const STAT: &str = "anon 50000\nfile 9000\nsock 0\ninactive_anon 0\ninactive_file 3000\nactive_file 6000\n";

#[test]
fn a_group_of_version_2_uses_what_is_not_in_files() {
    let files = [("memory.max", "100000\n"), ("memory.current", "90000\n"), ("memory.stat", STAT)];
    let mounted = Mounted::new("v2").with("system.slice/tollgate.service", &files);
    let usage = mounted.usage("0::/system.slice/tollgate.service\n").unwrap();
    assert_eq!(usage, MemoryUsage { used: 81_000, limit: 100_000 });
    assert!(usage.exceeds(81) && !usage.exceeds(82));
}

#[test]
fn a_group_of_version_1_is_found_among_the_others() {
    let files = [
        ("memory.limit_in_bytes", "100000\n"),
        ("memory.usage_in_bytes", "60000\n"),
        ("memory.stat", "inactive_file 1\ntotal_inactive_file 8000\ntotal_active_file 2000\n"),
    ];
    let mounted = Mounted::new("v1").with("memory/docker/abc", &files);
    let membership = "9:name=systemd:/\n4:memory:/docker/abc\n1:cpu,cpuacct:/\n0::/\n";
    assert_eq!(mounted.usage(membership), Some(MemoryUsage { used: 50_000, limit: 100_000 }));
}

#[test]
fn in_a_container_the_group_may_be_the_root_of_what_is_mounted() {
    let files = [("memory.max", "100\n"), ("memory.current", "7\n")];
    let mounted = Mounted::new("inside").with("", &files);
    assert_eq!(mounted.usage("0::/kubepods/pod1/abc\n"), Some(MemoryUsage { used: 7, limit: 100 }));
}

#[test]
fn what_others_of_the_group_use_is_not_the_gates_to_save() {
    let of = |stat| {
        let files = [("memory.max", "1000000\n"), ("memory.current", "990000\n"), ("memory.stat", stat)];
        Mounted::new("others").with("a", &files).usage("0::/a\n")
    };
    assert_eq!(of("sock 100000\ninactive_file 0\n"), None);
    assert_eq!(of("sock 200000\n"), Some(MemoryUsage { used: 990_000, limit: 1_000_000 }));
}

#[test]
fn a_group_without_a_limit_has_none() {
    let mounted = Mounted::new("v2-free").with("a", &[("memory.max", "max\n"), ("memory.current", "7\n")]);
    assert_eq!(mounted.usage("0::/a\n"), None);
    let files = [("memory.limit_in_bytes", "9223372036854771712\n"), ("memory.usage_in_bytes", "7\n")];
    let mounted = Mounted::new("v1-free").with("memory/a", &files);
    assert_eq!(mounted.usage("4:memory:/a\n"), None);
    assert_eq!(mounted.usage("what is this?\n::\n"), None);
}

#[test]
fn this_process_uses_some_data_and_not_all_of_it() {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    assert!(field(&pages, DATA).unwrap() > 10 && field(&pages, RESIDENT).unwrap() > 10, "{pages}");
    assert_eq!(field("1 2 3", DATA), None);
    if let Some(usage) = MemoryLimits::of_this_process().tightest() {
        assert!(usage.used > 0 && usage.used <= usage.limit, "{usage:?}");
    }
}
