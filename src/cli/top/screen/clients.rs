//! The table of clients: who they are, what they tried, and what is left in their buckets.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};

use super::super::overview::ClientOrder;
use super::super::state::{Prompt, TopState};
use super::{NARROW, Palette, pane, words};
use crate::config::grouped;
use crate::observe::admin::pages::ClientPart;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &TopState, palette: Palette) {
    let block = pane(title(state, palette), palette.faint());
    let rows = state.rows();
    if let Some(why) = emptiness(state, rows.is_empty()) {
        frame.render_widget(Paragraph::new(why).style(palette.faint()).block(block), area);
        return;
    }
    let columns = ClientColumn::of(area.width);
    let header = Row::new(columns.iter().map(|column| Cell::from(column.heading()))).style(palette.faint());
    let cells = |row: &ClientPart| Row::new(columns.iter().map(|column| column.cell(row, palette)));
    let table = Table::new(rows.into_iter().map(cells), columns.iter().map(|column| column.width()));
    let table = table.header(header).row_highlight_style(palette.selected()).block(block);
    let mut selected = TableState::new().with_selected(state.selected_index());
    frame.render_stateful_widget(table, area, &mut selected);
}

fn title(state: &TopState, palette: Palette) -> Line<'static> {
    let query = state.query();
    let order = match query.order {
        ClientOrder::Refused => "most refused",
        ClientOrder::Attempts => "most attempts",
        ClientOrder::Client => "by address",
    };
    let mut words = vec![Span::styled(" clients ", palette.strong())];
    words.push(Span::raw(format!("{order}, {} min ", query.minutes.number())));
    if let Some(limit) = &query.limit {
        words.push(Span::styled(format!("limit {limit} "), palette.warning()));
    }
    if !state.search().is_empty() && *state.prompt() != Prompt::Search {
        words.push(Span::styled(format!("with \"{}\" ", state.search()), palette.warning()));
    }
    Line::from(words)
}

/// Why there is nothing to show.
fn emptiness(state: &TopState, is_empty: bool) -> Option<String> {
    match &state.overview().clients {
        Err(why) => Some(why.to_string()),
        Ok(list) if list.clients.is_empty() => Some("no attempts in this time".to_owned()),
        Ok(list) if is_empty => Some(format!("none of {} clients matches the search", list.clients.len())),
        Ok(_) => None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientColumn {
    Client,
    Limit,
    Attempts,
    Refused,
    Tokens,
    Wait,
}

impl ClientColumn {
    /// Those for which there is room.
    fn of(width: u16) -> &'static [Self] {
        use ClientColumn::{Attempts, Client, Limit, Refused, Tokens, Wait};
        match width {
            WIDE.. => &[Client, Limit, Attempts, Refused, Tokens, Wait],
            NARROW..WIDE => &[Client, Limit, Attempts, Refused, Wait],
            _ => &[Client, Limit, Refused, Wait],
        }
    }

    fn heading(self) -> Text<'static> {
        match self {
            Self::Client => Text::raw("client"),
            Self::Limit => Text::raw("limit"),
            Self::Attempts => Text::raw("attempts").right_aligned(),
            Self::Refused => Text::raw("refused").right_aligned(),
            Self::Tokens => Text::raw("tokens"),
            Self::Wait => Text::raw("wait").right_aligned(),
        }
    }

    fn width(self) -> Constraint {
        match self {
            Self::Client => Constraint::Fill(2),
            Self::Limit => Constraint::Fill(1),
            Self::Attempts | Self::Refused => Constraint::Length(9),
            Self::Tokens => Constraint::Length(17),
            Self::Wait => Constraint::Length(6),
        }
    }

    fn cell(self, row: &ClientPart, palette: Palette) -> Cell<'static> {
        match self {
            Self::Client => Cell::from(name(row)),
            Self::Limit => Cell::from(row.limit.to_string()),
            Self::Attempts => Cell::from(Text::raw(count(row.attempts, row.error)).right_aligned()),
            Self::Refused => {
                let style = if row.refused == 0 { palette.faint() } else { palette.bad() };
                Cell::from(Text::styled(count(row.refused, row.error), style).right_aligned())
            }
            Self::Tokens => Cell::from(tokens(row, palette)),
            Self::Wait => Cell::from(Text::raw(wait(row)).right_aligned()),
        }
    }
}

fn name(row: &ClientPart) -> String {
    match (&row.client, &row.account) {
        (Some(client), _) => client.to_string(),
        (None, Some(account)) => format!("account {account}"),
        (None, None) => "-".to_owned(),
    }
}

/// A count that may be too low says so.
fn count(number: u64, error: u64) -> String {
    if error > 0 && number > 0 { format!("≥{}", grouped(number)) } else { grouped(number) }
}

/// A bar of the bucket's level, and the level in whole tokens.
fn tokens(row: &ClientPart, palette: Palette) -> Line<'static> {
    let (Some(tokens), Some(burst)) = (*row.tokens, row.burst.filter(|burst| *burst > 0)) else {
        return Line::styled("-", palette.faint());
    };
    let whole = i32::try_from(tokens).map_or(0.0, f64::from);
    let share = (whole / f64::from(burst)).clamp(0.0, 1.0);
    let style = match share {
        share if share >= 0.5 => palette.good(),
        share if share > 0.0 => palette.warning(),
        _ => palette.bad(),
    };
    Line::from(vec![Span::styled(bar(share), style), Span::raw(format!(" {tokens}/{burst}"))])
}

/// A bar that is filled to an eighth of a column; it is empty only without a whole eighth.
fn bar(share: f64) -> String {
    let eighths =
        (1..=BAR_COLUMNS * 8).filter(|&at| f64::from(at) <= share * f64::from(BAR_COLUMNS * 8)).count();
    let mut bar = "█".repeat(eighths / 8);
    bar.push_str(PARTS.get(eighths % 8).copied().unwrap_or_default());
    let rest = usize::from(BAR_COLUMNS).saturating_sub(eighths.div_ceil(8));
    bar + &"░".repeat(rest)
}

/// How long the client has to wait, where it has to.
fn wait(row: &ClientPart) -> String {
    match (*row.tokens, *row.next) {
        (Some(..1), Some(next)) if next > 0.0 => words::wait(next),
        _ => String::new(),
    }
}

/// Columns of a screen that has a place for everything.
const WIDE: u16 = 76;
const BAR_COLUMNS: u16 = 8;
/// What fills none to seven eighths of a column from the left.
const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_eight_columns_and_is_full_only_when_the_bucket_is() {
        let bars =
            [(0.0, "░░░░░░░░"), (0.02, "▏░░░░░░░"), (0.5, "████░░░░"), (0.99, "███████▉"), (1.0, "████████")];
        for (share, filled) in bars {
            assert_eq!(bar(share), filled, "{share}");
        }
        assert_eq!(bar(f64::NAN), "░░░░░░░░");
    }
}
