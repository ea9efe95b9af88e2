//! Clocks of a running gate that a test can move, by a small library that is loaded into it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::compile;
use crate::gate::{Gate, Launch, new_directory};

/// A gate whose clocks can be moved.
pub struct Clocks {
    pub gate: Gate,
    file: PathBuf,
    directory: PathBuf,
}

/// By how much each clock is off, in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shift {
    /// The wall clock.
    pub wall: i64,
    /// The clock that should never step back.
    pub monotonic: f64,
    /// The one that goes on while the machine sleeps.
    pub boot: i64,
}

impl Clocks {
    /// Starts a gate on this file with its clocks right.
    pub fn start(config: &str) -> Self {
        Self::launch(config, &[])
    }

    /// Starts a gate on this file whose monotonic clock stands still but for what a test lets [pass](Self::pass).
    /// Its time-outs never run out.
    pub fn frozen(config: &str) -> Self {
        Self::launch(config, &[("CLOCK_FROZEN", "yes")])
    }

    fn launch(config: &str, environment: &[(&str, &str)]) -> Self {
        let directory = new_directory();
        let (library, file) = (directory.join("clock_shift.so"), directory.join("shift"));
        compile(&["-shared", "-fPIC", "-O1"], "tests/tools/clock_shift.c", &library);
        fs::write(&file, "0 0 0\n").unwrap();
        let launch = Launch::new(config)
            .environment("LD_PRELOAD", library.to_str().unwrap())
            .environment("CLOCK_SHIFT", file.to_str().unwrap());
        let set = |launch: Launch, (name, value): &(&str, &str)| launch.environment(name, value);
        let launch = environment.iter().fold(launch, set);
        Self { gate: launch.start(), file, directory }
    }

    /// Moves the clocks, counted from where they were at the start.
    pub fn shift(&self, shift: Shift) {
        #[allow(clippy::cast_possible_truncation, reason = "a few years in nanoseconds")]
        let monotonic = (shift.monotonic * 1e9) as i64;
        let line = format!("{} {monotonic} {}\n", shift.wall * 1_000_000_000, shift.boot * 1_000_000_000);
        // Renamed into place: the gate never reads half a line.
        let new = self.file.with_extension("new");
        fs::write(&new, line).unwrap();
        fs::rename(&new, &self.file).unwrap();
    }

    /// Lets this much time pass for the gate, from the start.
    pub fn pass(&self, time: Duration) {
        self.shift(Shift { monotonic: time.as_secs_f64(), ..Shift::default() });
    }
}

impl Drop for Clocks {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}
