//! What each key does.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::super::overview::{ClientOrder, Minutes};
use super::{KeyEffect, OperatorAction, Prompt, TopState};
use crate::observe::admin::pages::ClientPart;

impl TopState {
    /// Takes a key.
    pub(in super::super) fn on_key(&mut self, key: KeyEvent) -> KeyEffect {
        if key.kind == KeyEventKind::Release {
            return KeyEffect::None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { KeyEffect::Quit } else { KeyEffect::None };
        }
        self.message = None;
        match self.prompt.clone() {
            Prompt::Browse => self.browse(key.code),
            Prompt::Search => self.edit_search(key.code),
            Prompt::Help => {
                self.prompt = Prompt::Browse;
                KeyEffect::None
            }
            Prompt::Confirm(action) => {
                self.prompt = Prompt::Browse;
                if matches!(key.code, KeyCode::Char('y' | 'Y')) {
                    KeyEffect::Act(action)
                } else {
                    KeyEffect::None
                }
            }
        }
    }

    fn browse(&mut self, key: KeyCode) -> KeyEffect {
        match key {
            KeyCode::Char('q') => return KeyEffect::Quit,
            KeyCode::Char('s') => self.query.order = next_order(self.query.order),
            KeyCode::Char('1') => self.query.minutes = Minutes::One,
            KeyCode::Char('2') => self.query.minutes = Minutes::Ten,
            KeyCode::Char('3') => self.query.minutes = Minutes::Sixty,
            KeyCode::Char('l') => self.query.limit = self.next_limit(),
            KeyCode::Char('p') if self.is_paused => self.is_paused = false,
            other => {
                self.browse_here(other);
                return KeyEffect::None;
            }
        }
        KeyEffect::Refresh
    }

    /// Keys about which the gate need not be asked.
    fn browse_here(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char('p') => self.is_paused = true,
            KeyCode::Char('/') => self.prompt = Prompt::Search,
            KeyCode::Char('?' | 'h') => self.prompt = Prompt::Help,
            KeyCode::Char('r') => self.confirm(reset),
            KeyCode::Char('e') => self.confirm(exempt),
            KeyCode::Down | KeyCode::Tab | KeyCode::Char('j') => self.select_by(1),
            KeyCode::Up | KeyCode::BackTab | KeyCode::Char('k') => self.select_by(-1),
            KeyCode::PageDown => self.select_by(PAGE),
            KeyCode::PageUp => self.select_by(-PAGE),
            KeyCode::Home => self.select_by(isize::MIN),
            KeyCode::End => self.select_by(isize::MAX),
            KeyCode::Esc => self.search.clear(),
            _ => {}
        }
    }

    fn edit_search(&mut self, key: KeyCode) -> KeyEffect {
        match key {
            KeyCode::Char(letter) if self.search.len() < MAX_SEARCH => {
                self.search.extend(letter.to_lowercase())
            }
            KeyCode::Backspace => _ = self.search.pop(),
            KeyCode::Enter => self.prompt = Prompt::Browse,
            KeyCode::Esc => {
                self.search.clear();
                self.prompt = Prompt::Browse;
            }
            KeyCode::Down | KeyCode::Tab => self.select_by(1),
            KeyCode::Up | KeyCode::BackTab => self.select_by(-1),
            _ => {}
        }
        KeyEffect::None
    }

    /// Asks before the action on the selected row, or says why there is none.
    fn confirm(&mut self, action: fn(&ClientPart, String) -> OperatorAction) {
        let rows = self.rows();
        let Some(row) = self.selected_index().and_then(|at| rows.get(at)) else {
            return self.refuse("no client is selected");
        };
        match &row.client {
            Some(client) => self.prompt = Prompt::Confirm(action(row, client.as_str().to_owned())),
            // The gate keeps no name of an account, and the hash leads to no bucket.
            None => self.refuse("an account is listed by its hash: tollgate buckets reset user:NAME"),
        }
    }

    /// The next limit by which clients are filtered; none after the last.
    fn next_limit(&self) -> Option<String> {
        let limits = self.overview.limits.iter().flat_map(|list| &list.limits);
        let names: Vec<&str> = limits.map(|limit| limit.name.as_str()).collect();
        let next = match &self.query.limit {
            None => 0,
            Some(limit) => names.iter().position(|name| name == limit).map_or(usize::MAX, |at| at + 1),
        };
        names.get(next).map(|&name| name.to_owned())
    }
}

fn next_order(order: ClientOrder) -> ClientOrder {
    match order {
        ClientOrder::Refused => ClientOrder::Attempts,
        ClientOrder::Attempts => ClientOrder::Client,
        ClientOrder::Client => ClientOrder::Refused,
    }
}

fn reset(row: &ClientPart, client: String) -> OperatorAction {
    OperatorAction::Reset { client, limit: row.limit.as_str().to_owned() }
}

fn exempt(_: &ClientPart, client: String) -> OperatorAction {
    OperatorAction::Exempt { client }
}

/// Rows.
const PAGE: isize = 10;
/// Bytes.
const MAX_SEARCH: usize = 64;
