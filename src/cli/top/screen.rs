//! Draws the state: a pure function of it and of the size of the screen.
//!
//! From top to bottom: how the gate is, what is wrong, what the last minutes brought, clients, limits, and one line for
//! keys and questions. A small screen leaves out the limits first.

mod charts;
mod clients;
mod footer;
mod header;
mod help;
mod limits;
mod palette;
mod words;

use ratatui::backend::TestBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders};
use ratatui::{Frame, Terminal};

pub(super) use self::palette::Palette;
use super::state::{Prompt, TopState};

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, state: &TopState, palette: Palette) {
    let areas = ScreenAreas::of(frame.area(), state);
    header::draw(frame, areas.header, state, palette);
    header::draw_alerts(frame, areas.alerts, state, palette);
    charts::draw(frame, areas.charts, state, palette);
    clients::draw(frame, areas.clients, state, palette);
    limits::draw(frame, areas.limits, state, palette);
    footer::draw(frame, areas.footer, state, palette);
    if *state.prompt() == Prompt::Help {
        help::draw(frame, palette);
    }
}

/// The same as text, with all clients and limits and without the line for keys.
///
/// # Errors
/// None: the screen is memory.
pub(super) fn print(state: &TopState) -> anyhow::Result<String> {
    let rows = state.rows().len() + 4 * limits::count(state) + FIXED_LINES;
    let height = u16::try_from(rows).unwrap_or(u16::MAX).min(MAX_PRINTED_LINES);
    let mut terminal = Terminal::new(TestBackend::new(PRINTED_COLUMNS, height))?;
    terminal.draw(|frame| draw(frame, state, Palette::new(false)))?;
    let buffer = terminal.backend().buffer();
    let without_footer = buffer.content.chunks(PRINTED_COLUMNS.into()).take(usize::from(height) - 1);
    let lines = without_footer.map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>());
    let lines: Vec<String> =
        lines.map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect();
    Ok(lines.join("\n") + "\n")
}

struct ScreenAreas {
    header: Rect,
    alerts: Rect,
    charts: Rect,
    clients: Rect,
    limits: Rect,
    footer: Rect,
}

impl ScreenAreas {
    fn of(area: Rect, state: &TopState) -> Self {
        let (charts, limits) = match area.height {
            0..10 => (0, 0),
            10..20 => (3, 0),
            _ => (5, limits::height(state).min(area.height / 4)),
        };
        let header = if area.width < NARROW { 2 } else { 1 };
        let alerts = header::alert_height(state, area).min(area.height / 5);
        let heights = [
            Constraint::Length(header),
            Constraint::Length(alerts),
            Constraint::Length(charts),
            Constraint::Min(0),
            Constraint::Length(limits),
            Constraint::Length(1),
        ];
        let [header, alerts, charts, clients, limits, footer] = Layout::vertical(heights).areas(area);
        Self { header, alerts, charts, clients, limits, footer }
    }
}

/// A line with a title, and an area below it.
fn pane(title: Line<'_>, style: Style) -> Block<'_> {
    Block::new().borders(Borders::TOP).border_style(style).title(title)
}

/// Columns below which a pane shows less.
const NARROW: u16 = 60;
/// Columns of an overview that is printed as text.
const PRINTED_COLUMNS: u16 = 100;
/// So many clients and limits are more than the gate lists.
const MAX_PRINTED_LINES: u16 = 2000;
/// Header, alerts, charts, titles and footer.
const FIXED_LINES: usize = 20;

#[cfg(test)]
mod tests;
