//! Screens as they are kept in `tests/top/`, and what holds at every size. `UPDATE=1` rewrites the files.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};
use serde_json::{Value, json};

use super::super::overview::{ClientOrder, Minutes, Overview, OverviewQuery};
use super::*;
use crate::time::Span;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/top")
}

/// The recorded pages of a gate under attack.
fn pages() -> Value {
    let text = std::fs::read_to_string(folder().join("pages.json")).unwrap();
    let pages: Value = serde_json::from_str(&text).unwrap();
    let page = |name: &str| &pages[format!("/api/v1/{name}")];
    json!({"status": page("status"), "limits": page("limits"), "clients": page("clients"), "history": page("history")})
}

fn state(pages: &Value) -> TopState {
    let query = OverviewQuery {
        order: ClientOrder::Refused,
        minutes: Minutes::Ten,
        limit: None,
        every: Span::from_secs(2),
    };
    TopState::new(Overview::parse(pages).unwrap(), query)
}

fn press(state: &mut TopState, keys: &str) {
    for key in keys.chars() {
        let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
        state.on_key(KeyEvent::new(code, KeyModifiers::NONE));
    }
}

fn buffer(state: &TopState, (width, height): (u16, u16), palette: Palette) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state, palette)).unwrap();
    terminal.backend().buffer().clone()
}

fn text(state: &TopState, size: (u16, u16)) -> String {
    let buffer = buffer(state, size, Palette::new(true));
    let lines = buffer.content.chunks(size.0.into());
    let lines = lines.map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>());
    lines.map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn assert_golden(name: &str, found: &str) {
    let path = folder().join(name).with_extension("txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(wanted == found, "{name} differs: UPDATE=1 rewrites it\n{found}");
}

#[test]
fn the_screens_are_those_that_are_kept() {
    let mut pages = pages();
    let mut small = state(&pages);
    for (name, size) in [("wide", (120, 36)), ("usual", (80, 24)), ("small", (40, 15))] {
        assert_golden(name, &text(&small, size));
    }
    press(&mut small, "?");
    assert_golden("help", &text(&small, (80, 24)));
    press(&mut small, " /address\njr");
    assert_golden("confirm", &text(&small, (80, 24)));
    pages["status"]["attacks"] = json!([]);
    pages["status"]["warnings"] = json!([]);
    pages["status"]["store"] = json!({"url": "redis://10.0.0.5", "up": false});
    pages["clients"] = json!({"clients": []});
    pages["history"] = json!({"error": "this gate does not offer it"});
    assert_golden("quiet", &text(&state(&pages), (80, 24)));
}

#[test]
fn one_overview_as_text_has_every_client_and_limit_and_no_keys() {
    let mut pages = pages();
    let many: Vec<Value> = (0..200)
        .map(|at| json!({"limit": "address", "client": format!("10.0.0.{at}"), "attempts": 1, "refused": 1}))
        .collect();
    assert_golden("printed", &print(&state(&pages)).unwrap());
    pages["clients"]["clients"] = json!(many);
    let printed = print(&state(&pages)).unwrap();
    assert!(printed.contains("10.0.0.0 ") && printed.contains("10.0.0.199 "), "{printed}");
    for name in ["subnet", "└ address-new"] {
        assert!(printed.lines().any(|line| line.starts_with(name)), "{name} in {printed}");
    }
    assert!(!printed.contains("quit"));
}

#[test]
fn without_colours_no_cell_has_one_and_the_alarm_is_still_seen() {
    let state = state(&pages());
    let plain = buffer(&state, (80, 24), Palette::new(false));
    assert!(plain.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    assert!(plain[(0, 1)].modifier.contains(Modifier::REVERSED), "under attack");
    let colored = buffer(&state, (80, 24), Palette::new(true));
    assert_eq!(colored[(0, 1)].fg, Color::Red);
}

#[test]
fn an_outage_comes_first_and_names_the_age_of_what_is_shown() {
    let mut state = state(&pages());
    state.update(Err("cannot connect".into()));
    state.set_age(Span::from_secs(75));
    let text = text(&state, (80, 24));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1..3], ["the gate does not answer: cannot connect", "the last answer is 1m15s old"]);
    assert!(text.contains("198.51.100.23"), "the last overview stays: {text}");
}

/// J1.
#[test]
fn hostile_names_reach_the_screen_without_control_characters() {
    let pages =
        pages().to_string().replace("198.51.100", "\\u001b[2J\\u202e\\u009b").replace("blog", "a\\nb");
    let state = state(&serde_json::from_str(&pages).unwrap());
    for text in [text(&state, (120, 40)), print(&state).unwrap()] {
        assert!(text.contains("[2J.23"), "{text}");
        assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
        assert!(!text.contains('\u{202e}'));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn no_size_and_no_keys_panic(
        width in 1..200u16, height in 1..80u16, keys in "[qs/123lrepy?h\njka-z0-9ß漢 ]{0,12}",
    ) {
        let mut state = state(&pages());
        press(&mut state, &keys);
        let _ = text(&state, (width, height));
    }

    #[test]
    fn no_number_of_the_gate_panics(
        tokens in any::<f64>(), burst in any::<f64>(), next in any::<f64>(), step in any::<f64>(), seconds: u64, count: u64,
    ) {
        let mut pages = pages();
        pages["status"]["uptime"] = json!(count);
        pages["clients"]["clients"][0] = json!({"limit": "", "attempts": count, "refused": count, "error": count,
            "tokens": tokens, "burst": burst, "next": next});
        pages["history"] = json!({"seconds": seconds, "admitted": [step, null], "refused": [step, step]});
        let _ = text(&state(&pages), (100, 30));
    }
}
