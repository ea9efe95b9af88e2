//! The processor time of threads, as the kernel counts it: in nanoseconds, where `/proc/PID/stat` has hundredths of a second.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// What the threads of a process with such names have run so far. A thread that ends meanwhile counts for nothing.
pub fn time_of_threads(process: u32, is_counted: impl Fn(&str) -> bool) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap().filter_map(Result::ok);
    let nanos = |thread: &Path| -> Option<u64> {
        let name = fs::read_to_string(thread.join("comm")).ok()?;
        let times = fs::read_to_string(thread.join("schedstat")).ok()?;
        if is_counted(name.trim_end()) { times.split(' ').next()?.parse().ok() } else { None }
    };
    Duration::from_nanos(threads.filter_map(|thread| nanos(&thread.path())).sum())
}
