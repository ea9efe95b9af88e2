//! Keys change what is shown; only a confirmed key changes the gate.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;

use super::super::overview::{ClientOrder, Minutes};
use super::*;

fn overview(clients: &serde_json::Value) -> Overview {
    let limit = |name: &str| json!({"name": name, "mode": "enforce", "spec": "10 per 5m"});
    let pages = json!({
        "status": {"version": "1", "state": "running", "uptime": 1, "connections": 0,
                   "store": {"url": "memory", "up": true}},
        "limits": {"limits": [limit("address"), limit("account")]},
        "clients": {"clients": clients},
        "history": {"error": "none"},
    });
    Overview::parse(&pages).unwrap()
}

fn state() -> TopState {
    let clients = json!([
        {"limit": "address", "client": "192.0.2.10", "account": null, "attempts": 9, "refused": 1},
        {"limit": "address", "client": "192.0.2.9", "account": null, "attempts": 5, "refused": 4},
        {"limit": "account", "client": null, "account": "00ff", "attempts": 7, "refused": 2},
    ]);
    let query = OverviewQuery {
        order: ClientOrder::Refused,
        minutes: Minutes::Ten,
        limit: None,
        every: Span::from_secs(2),
    };
    TopState::new(overview(&clients), query)
}

fn press(state: &mut TopState, key: KeyCode) -> KeyEffect {
    state.on_key(KeyEvent::new(key, KeyModifiers::NONE))
}

fn type_text(state: &mut TopState, text: &str) {
    for letter in text.chars() {
        press(state, KeyCode::Char(letter));
    }
}

fn attempts(state: &TopState) -> Vec<u64> {
    state.rows().iter().map(|row| row.attempts).collect()
}

#[test]
fn s_orders_by_refused_then_by_attempts_then_by_address_as_a_number() {
    let mut state = state();
    assert_eq!(attempts(&state), [5, 7, 9]);
    assert_eq!(press(&mut state, KeyCode::Char('s')), KeyEffect::Refresh);
    assert_eq!(attempts(&state), [9, 7, 5]);
    press(&mut state, KeyCode::Char('s'));
    assert_eq!(attempts(&state), [5, 9, 7], "192.0.2.9 before 192.0.2.10, accounts last");
    press(&mut state, KeyCode::Char('s'));
    assert_eq!(attempts(&state), [5, 7, 9]);
}

#[test]
fn a_search_filters_while_one_types_and_escape_ends_it() {
    let mut state = state();
    type_text(&mut state, "/2.10");
    assert_eq!(attempts(&state), [9]);
    press(&mut state, KeyCode::Backspace);
    assert_eq!(attempts(&state), [9]);
    type_text(&mut state, "qq");
    assert_eq!((attempts(&state), state.prompt()), (vec![], &Prompt::Search), "q is a letter here");
    press(&mut state, KeyCode::Esc);
    assert_eq!((attempts(&state).len(), state.prompt()), (3, &Prompt::Browse));
    type_text(&mut state, "/00FF");
    press(&mut state, KeyCode::Enter);
    assert_eq!((attempts(&state), state.prompt()), (vec![7], &Prompt::Browse), "an account, in any case");
}

#[test]
fn a_search_of_any_length_stays_bounded() {
    let mut state = state();
    type_text(&mut state, &format!("/{}", "ß".repeat(1000)));
    assert!(state.search().len() <= 66, "{}", state.search().len());
}

#[test]
fn the_selected_client_stays_selected_when_its_place_changes() {
    let mut state = state();
    assert_eq!(state.selected_index(), Some(0));
    press(&mut state, KeyCode::Down);
    press(&mut state, KeyCode::Tab);
    press(&mut state, KeyCode::Down);
    assert_eq!(state.selected_index(), Some(2), "the last one");
    press(&mut state, KeyCode::Char('s'));
    assert_eq!(state.selected_index(), Some(0), "192.0.2.10 is the first one now");
    state.update(Ok(overview(&json!([]))));
    assert_eq!(state.selected_index(), None);
    for key in [KeyCode::Down, KeyCode::Home, KeyCode::End, KeyCode::PageUp, KeyCode::Char('r')] {
        press(&mut state, key);
    }
    assert!(state.message().is_some_and(|message| message.text == "no client is selected"));
}

#[test]
fn reset_and_exempt_ask_once_and_only_y_is_yes() {
    let mut state = state();
    let reset = OperatorAction::Reset { client: "192.0.2.9".into(), limit: "address".into() };
    for (key, action) in [('r', reset), ('e', OperatorAction::Exempt { client: "192.0.2.9".into() })] {
        for no in [KeyCode::Char('n'), KeyCode::Enter, KeyCode::Esc, KeyCode::Char(key)] {
            assert_eq!(press(&mut state, KeyCode::Char(key)), KeyEffect::None);
            assert_eq!(state.prompt(), &Prompt::Confirm(action.clone()));
            assert_eq!(press(&mut state, no), KeyEffect::None);
            assert_eq!(state.prompt(), &Prompt::Browse);
        }
        press(&mut state, KeyCode::Char(key));
        assert_eq!(press(&mut state, KeyCode::Char('y')), KeyEffect::Act(action));
    }
}

#[test]
fn what_was_confirmed_is_done_even_if_the_list_has_changed() {
    let mut state = state();
    press(&mut state, KeyCode::Char('e'));
    state.update(Ok(overview(&json!([]))));
    let action = OperatorAction::Exempt { client: "192.0.2.9".into() };
    assert_eq!(press(&mut state, KeyCode::Char('y')), KeyEffect::Act(action.clone()));
    state.say_done(&action, Err("no\u{1b}[2J".into()));
    assert_eq!(state.message().unwrap().text, "not exempted: no[2J");
}

#[test]
fn an_account_is_neither_reset_nor_exempted_by_its_hash() {
    let mut state = state();
    press(&mut state, KeyCode::Down);
    for key in ['r', 'e'] {
        press(&mut state, KeyCode::Char(key));
        assert_eq!(state.prompt(), &Prompt::Browse);
        assert!(state.message().unwrap().text.contains("by its hash"));
    }
}

#[test]
fn l_goes_through_the_limits_and_the_digits_choose_the_time() {
    let mut state = state();
    let mut limits = Vec::new();
    for _ in 0..3 {
        assert_eq!(press(&mut state, KeyCode::Char('l')), KeyEffect::Refresh);
        limits.push(state.query().limit.clone());
    }
    assert_eq!(limits, [Some("address".to_owned()), Some("account".to_owned()), None]);
    for (key, minutes) in [('1', Minutes::One), ('3', Minutes::Sixty), ('2', Minutes::Ten)] {
        assert_eq!(press(&mut state, KeyCode::Char(key)), KeyEffect::Refresh);
        assert_eq!(state.query().minutes, minutes);
    }
}

#[test]
fn a_pause_ends_with_a_fresh_overview() {
    let mut state = state();
    assert_eq!((press(&mut state, KeyCode::Char('p')), state.is_paused()), (KeyEffect::None, true));
    assert_eq!((press(&mut state, KeyCode::Char('p')), state.is_paused()), (KeyEffect::Refresh, false));
}

#[test]
fn ctrl_c_quits_whatever_is_asked_and_q_only_while_browsing() {
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    for keys in ["", "/a", "?", "r"] {
        let mut state = state();
        type_text(&mut state, keys);
        assert_eq!(state.on_key(ctrl_c), KeyEffect::Quit, "{keys}");
    }
    assert_eq!(press(&mut state(), KeyCode::Char('q')), KeyEffect::Quit);
}

#[test]
fn a_gate_that_stops_answering_keeps_its_last_overview_with_the_reason() {
    let mut state = state();
    state.set_age(Span::from_secs(5));
    assert_eq!(state.staleness(), None);
    state.set_age(Span::from_secs(6));
    state.update(Err("gone".into()));
    assert_eq!((state.rows().len(), state.outage()), (3, Some(&"gone".into())));
    assert_eq!(state.staleness(), Some(Span::from_secs(6)));
    state.update(Ok(overview(&json!([]))));
    assert_eq!(state.outage(), None);
}
