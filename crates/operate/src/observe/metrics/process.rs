//! `process_*`: memory, processor time and descriptors of this process, read from `/proc/self` at each scrape.
//!
//! Names and units are those of Prometheus' own clients. Without `/proc` the metrics are absent, because a zero would
//! be wrong.

use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Reads the figures of this process.
#[derive(Debug)]
pub(super) struct ProcessMetrics;

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let stat = fs::read_to_string("/proc/self/stat").ok();
        if let Some(stat) = stat.as_deref().and_then(ProcStat::parse) {
            let name = "process_cpu_seconds";
            let help = "User and system time spent.";
            ConstCounter::new(stat.cpu).encode(encoder.encode_descriptor(
                name,
                help,
                None,
                MetricType::Counter,
            )?)?;
            gauge(&mut encoder, "process_resident_memory_bytes", "Resident memory.", stat.resident)?;
            gauge(&mut encoder, "process_virtual_memory_bytes", "Address space.", stat.address_space)?;
            gauge(&mut encoder, "process_threads", "Threads.", stat.threads)?;
            if let Some(boot) = fs::read_to_string("/proc/stat").ok().as_deref().and_then(boot_time) {
                let help = "When this process started, in seconds since 1970.";
                gauge(&mut encoder, "process_start_time_seconds", help, boot + stat.started)?;
            }
        }
        if let Some(open) = open_files() {
            gauge(&mut encoder, "process_open_fds", "Open file descriptors.", open)?;
        }
        if let Some(max) = max_files() {
            gauge(&mut encoder, "process_max_fds", "File descriptors that may be open.", max)?;
        }
        Ok(())
    }
}

/// Fields of `/proc/self/stat` (proc(5)).
#[derive(Debug, PartialEq)]
struct ProcStat {
    /// Seconds.
    cpu: f64,
    threads: f64,
    /// Seconds after the machine started.
    started: f64,
    /// Bytes.
    address_space: f64,
    /// Bytes.
    resident: f64,
}

impl ProcStat {
    /// Parses the file. The program's name comes second, in parentheses, and may hold anything, so fields are counted
    /// from the last parenthesis on.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<f64> =
            rest.split_ascii_whitespace().map(|field| field.parse().unwrap_or(0.0)).collect();
        let field = |number: usize| fields.get(number - 3).copied();
        let ticks = as_float(rustix::param::clock_ticks_per_second());
        let page = as_float(u64::try_from(rustix::param::page_size()).ok()?);
        Some(Self {
            cpu: (field(14)? + field(15)?) / ticks,
            threads: field(20)?,
            started: field(22)? / ticks,
            address_space: field(23)?,
            resident: field(24)? * page,
        })
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> std::fmt::Result {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

/// The time at which the machine started, in seconds since 1970.
fn boot_time(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn open_files() -> Option<f64> {
    let entries = fs::read_dir("/proc/self/fd").ok()?.count();
    // One entry is the directory that is being read.
    Some(as_float(u64::try_from(entries).ok()?.saturating_sub(1)))
}

fn max_files() -> Option<f64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.map(as_float)
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53, and metrics are floats")]
fn as_float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_parentheses_and_blanks_does_not_shift_the_fields() {
        let text = "7 (a) b) c) S 1 7 7 0 -1 0 0 0 0 0 250 50 0 0 20 0 3 0 1200 4096 2";
        let stat = ProcStat::parse(text).unwrap();
        let ticks = as_float(rustix::param::clock_ticks_per_second());
        assert_eq!(stat.cpu, 300.0 / ticks);
        assert_eq!((stat.threads, stat.started, stat.address_space), (3.0, 1200.0 / ticks, 4096.0));
    }

    #[test]
    fn a_cut_off_file_shows_nothing_instead_of_zeroes() {
        assert_eq!(ProcStat::parse("7 (tollgate) S 1 7"), None);
        assert_eq!(boot_time("cpu 1 2 3\n"), None);
        assert_eq!(boot_time("cpu 1 2 3\nbtime 1700000000\n"), Some(1_700_000_000.0));
    }
}
