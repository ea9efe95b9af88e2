//! The pane of limits, each with its candidate below it, to compare what would change with what is in force.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Row, Table};

use super::super::state::TopState;
use super::{NARROW, Palette, pane};
use crate::config::grouped;
use crate::observe::admin::pages::LimitPart;

/// Lines that the pane would fill.
pub(super) fn height(state: &TopState) -> u16 {
    u16::try_from(count(state).max(1) + 2).unwrap_or(u16::MAX)
}

/// Limits and candidates.
pub(super) fn count(state: &TopState) -> usize {
    state.overview().limits.as_ref().map_or(0, |list| list.limits.len())
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &TopState, palette: Palette) {
    let block = pane(Line::styled(" limits ", palette.strong()), palette.faint());
    let limits = match &state.overview().limits {
        Ok(list) => in_pairs(&list.limits),
        Err(why) => {
            frame.render_widget(Paragraph::new(why.to_string()).style(palette.faint()).block(block), area);
            return;
        }
    };
    let columns = LimitColumn::of(area.width);
    let rows =
        limits.into_iter().map(|limit| Row::new(columns.iter().map(|column| column.cell(limit, palette))));
    let header = Row::new(columns.iter().map(|column| column.heading())).style(palette.faint());
    let table = Table::new(rows, columns.iter().map(|column| column.width()));
    frame.render_widget(table.header(header).block(block), area);
}

/// Each limit, followed by its candidates.
fn in_pairs(limits: &[LimitPart]) -> Vec<&LimitPart> {
    let is_owned = |limit: &LimitPart| {
        limit.candidate_of.as_ref().is_some_and(|owner| limits.iter().any(|other| other.name == *owner))
    };
    let candidates = |owner: &LimitPart| {
        let name = Some(owner.name.clone());
        limits.iter().filter(move |limit| limit.candidate_of == name)
    };
    let owners = limits.iter().filter(|limit| !is_owned(limit));
    owners.flat_map(|owner| std::iter::once(owner).chain(candidates(owner))).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitColumn {
    Name,
    Mode,
    Spec,
    Buckets,
    Admitted,
    Refused,
    /// What would have been refused, had the limit been enforced.
    Would,
}

impl LimitColumn {
    /// Those for which there is room.
    fn of(width: u16) -> &'static [Self] {
        use LimitColumn::{Admitted, Buckets, Mode, Name, Refused, Spec, Would};
        match width {
            WIDE.. => &[Name, Mode, Spec, Buckets, Admitted, Refused, Would],
            NARROW..WIDE => &[Name, Mode, Spec, Admitted, Refused, Would],
            _ => &[Name, Refused, Would],
        }
    }

    fn heading(self) -> Text<'static> {
        match self {
            Self::Name => Text::raw("limit"),
            Self::Mode => Text::raw("mode"),
            Self::Spec => Text::raw("spec"),
            Self::Buckets => Text::raw("buckets").right_aligned(),
            Self::Admitted => Text::raw("admitted").right_aligned(),
            Self::Refused => Text::raw("refused").right_aligned(),
            Self::Would => Text::raw("would").right_aligned(),
        }
    }

    fn width(self) -> Constraint {
        match self {
            Self::Name => Constraint::Fill(2),
            Self::Spec => Constraint::Fill(3),
            Self::Mode | Self::Buckets | Self::Admitted | Self::Refused | Self::Would => {
                Constraint::Length(9)
            }
        }
    }

    fn cell(self, limit: &LimitPart, palette: Palette) -> Text<'_> {
        let is_candidate = limit.candidate_of.is_some();
        match self {
            Self::Name if is_candidate => Text::raw(format!("└ {}", limit.name)),
            Self::Name => Text::raw(limit.name.as_str()),
            Self::Mode if is_candidate => Text::styled("candidate", palette.warning()),
            Self::Mode if limit.mode.as_str() == "enforce" => Text::styled("enforce", palette.good()),
            Self::Mode => Text::styled(limit.mode.as_str(), palette.warning()),
            Self::Spec => Text::raw(limit.spec.as_str()),
            Self::Buckets => Text::raw(grouped(limit.buckets)).right_aligned(),
            Self::Admitted => number(limit.decisions.admit, palette.good(), palette),
            Self::Refused => number(limit.decisions.refuse, palette.bad(), palette),
            Self::Would => number(limit.decisions.observe, palette.warning(), palette),
        }
    }
}

fn number(number: u64, style: Style, palette: Palette) -> Text<'static> {
    let style = if number == 0 { palette.faint() } else { style };
    Text::styled(grouped(number), style).right_aligned()
}

/// Columns of a screen that has a place for everything.
const WIDE: u16 = 100;
