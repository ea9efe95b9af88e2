//! Keys, sizes and signals on a real terminal.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::time::{Duration, Instant};

use crate::top::recorded_gate::RecordedGate;
use crate::top::terminal::Terminal;
use support::{Gate, ONE_AN_HOUR, Upstream, eventually};

fn start(gate: &RecordedGate) -> Terminal {
    let terminal = Terminal::start(&gate.socket, &[], &[]);
    terminal.wait_for("198.51.100.23");
    terminal
}

#[test]
fn keys_sort_search_and_choose_and_q_gives_the_terminal_back() {
    let gate = RecordedGate::start();
    let mut terminal = start(&gate);
    terminal.press("s");
    terminal.wait_for("most attempts, 10 min");
    assert!(gate.is_asked("GET /api/v1/clients?by=attempts&n=200&minutes=10"));
    terminal.press("3l");
    terminal.wait_for("60 min limit address");
    assert!(gate.is_asked("GET /api/v1/clients?by=attempts&n=200&minutes=60&limit=address"));
    terminal.press("/203");
    terminal
        .wait_until("one client", |text| text.contains("203.0.113.77") && !text.contains("198.51.100.23"));
    terminal.press("\u{1b}");
    terminal.wait_for("198.51.100.23");
    terminal.press("?");
    terminal.wait_for("last 1, 10 or 60 minutes");
    terminal.press(" q");
    assert!(terminal.ended().success());
}

#[test]
fn a_change_is_made_after_one_yes_and_not_before() {
    let gate = RecordedGate::start();
    let terminal = start(&gate);
    terminal.press("e");
    terminal.wait_for("y/n exempt 198.51.100.23 for 1h?");
    terminal.press("n");
    terminal.wait_for("? help");
    assert!(gate.asked().iter().all(|asked| asked.starts_with("GET")), "{:?}", gate.asked());
    terminal.press("ey");
    terminal.wait_for("198.51.100.23 is exempt for an hour");
    assert!(gate.is_asked("PUT /api/v1/exemptions/198%2E51%2E100%2E23 {\"for\":\"1h\",\"why\":\"top\"}"));
    terminal.press("ry");
    terminal.wait_for("not reset: `address` is frozen");
    assert!(gate.is_asked("DELETE /api/v1/buckets/ip%3A198%2E51%2E100%2E23?limit=address"));
}

#[test]
fn the_screen_follows_the_size_of_the_terminal() {
    let gate = RecordedGate::start();
    let mut terminal = start(&gate);
    for (rows, columns) in [(15, 40), (1, 1), (2, 300), (50, 3), (24, 80)] {
        terminal.resize(rows, columns);
    }
    terminal.resize(15, 40);
    terminal.wait_until("a small screen", |text| text.contains("198.51.100.23") && !text.contains("limits"));
    terminal.resize(24, 80);
    terminal.wait_for(" limits ");
    terminal.press("q");
    assert!(terminal.ended().success());
}

#[test]
fn a_signal_and_ctrl_c_give_the_terminal_back() {
    let gate = RecordedGate::start();
    for signal in ["TERM", "INT", "HUP", "QUIT"] {
        let mut terminal = start(&gate);
        terminal.signal(signal);
        assert!(terminal.ended().success(), "{signal}");
    }
    let mut terminal = start(&gate);
    terminal.press("/\u{3}");
    assert!(terminal.ended().success());
}

#[test]
fn no_color_is_honoured() {
    let gate = RecordedGate::start();
    let colors = |environment: &[(&str, &str)]| {
        let terminal = Terminal::start(&gate.socket, &[], environment);
        terminal.wait_for("198.51.100.23");
        let parser = terminal.screen.lock().unwrap();
        let cells = (0..24).flat_map(|row| (0..80).map(move |column| (row, column)));
        cells
            .filter(|&(row, column)| {
                parser.screen().cell(row, column).unwrap().fgcolor() != vt100::Color::Default
            })
            .count()
    };
    assert_eq!(colors(&[("NO_COLOR", "1")]), 0);
    assert!(colors(&[]) > 100);
    assert!(colors(&[("NO_COLOR", "")]) > 100, "an empty value is none");
}

#[test]
fn a_gate_that_is_slow_keeps_no_key_from_working() {
    let gate = RecordedGate::slow(|target| match target.contains("minutes=60") {
        true => Duration::from_secs(20),
        false => Duration::ZERO,
    });
    let mut terminal = start(&gate);
    terminal.press("3");
    assert!(gate.is_asked("GET /api/v1/clients?by=refused&n=200&minutes=60"));
    let started = Instant::now();
    terminal.press("?");
    terminal.wait_for("last 1, 10 or 60 minutes");
    terminal.press(" q");
    assert!(terminal.ended().success());
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
}

#[test]
fn a_gate_that_is_gone_is_named_while_its_last_overview_stays() {
    let gate = RecordedGate::start();
    let terminal = Terminal::start(&gate.socket, &["--every", "1s"], &[]);
    terminal.wait_for("198.51.100.23");
    std::fs::remove_file(&gate.socket).unwrap();
    terminal.wait_for("the gate does not answer: cannot connect");
    assert!(terminal.text().contains("198.51.100.23"));
}

#[test]
fn the_gate_is_asked_at_the_given_pace_and_not_at_all_in_a_pause() {
    let gate = RecordedGate::start();
    let rounds = || gate.asked().iter().filter(|asked| asked.contains("/status")).count();
    let terminal = Terminal::start(&gate.socket, &["--every", "1s"], &[]);
    assert!(eventually(Duration::from_secs(10), || rounds() >= 3));
    terminal.press("p");
    terminal.wait_for("paused");
    std::thread::sleep(Duration::from_millis(200));
    let before = rounds();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(rounds(), before);
    terminal.press("p");
    assert!(eventually(Duration::from_secs(10), || rounds() > before));
}

/// It went on for ever, deaf to signals, with most of a core.
#[test]
fn a_terminal_that_has_gone_ends_it() {
    let gate = RecordedGate::start();
    assert!(start(&gate).close());
}

#[test]
fn a_real_gate_is_shown() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    gate.drain("/login", "");
    let mut terminal = Terminal::start(&gate.admin_socket(), &[], &[]);
    terminal.wait_for("running");
    terminal.wait_for("store memory up");
    terminal.press("q");
    assert!(terminal.ended().success());
}
