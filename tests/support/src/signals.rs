//! Signals by their names, without the program `kill`.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Sends a signal by name (`TERM`) to a process; whether there is one.
pub fn signal(process: u32, name: &str) -> bool {
    kill_process(pid(process), by_name(name)).is_ok()
}

/// Sends it to all processes of a group.
pub fn signal_group(group: u32, name: &str) -> bool {
    kill_process_group(pid(group), by_name(name)).is_ok()
}

fn pid(process: u32) -> Pid {
    Pid::from_raw(i32::try_from(process).unwrap()).unwrap()
}

fn by_name(name: &str) -> Signal {
    match name {
        "CONT" => Signal::CONT,
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "KILL" => Signal::KILL,
        "QUIT" => Signal::QUIT,
        "STOP" => Signal::STOP,
        "TERM" => Signal::TERM,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        _ => panic!("no test sends {name}"),
    }
}
