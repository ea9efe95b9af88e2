//! Admitted and refused attempts of the last minutes, side by side, each with its own scale.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};

use super::super::state::TopState;
use super::{Palette, pane, words};
use crate::observe::admin::pages::HistoryPage;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &TopState, palette: Palette) {
    let minutes = state.query().minutes.number();
    match &state.overview().history {
        Ok(history) => {
            let halves = [Constraint::Fill(1), Constraint::Fill(1)];
            let [left, right] = Layout::horizontal(halves).spacing(1).areas(area);
            let chart = |name, steps| RateChart::new(name, steps, history, minutes);
            chart("admitted", &history.admitted).draw(frame, left, palette.good(), palette);
            chart("refused", &history.refused).draw(frame, right, palette.bad(), palette);
        }
        Err(why) => {
            let block = pane(Line::raw(" admitted and refused "), palette.faint());
            frame.render_widget(Paragraph::new(why.to_string()).style(palette.faint()).block(block), area);
        }
    }
}

struct RateChart {
    name: &'static str,
    /// The steps of the time that is shown.
    steps: Vec<Option<f64>>,
    /// Seconds of a step.
    seconds: f64,
}

impl RateChart {
    fn new(name: &'static str, steps: &[Option<u64>], history: &HistoryPage, minutes: u32) -> Self {
        let wanted = u64::from(minutes) * 60 / history.seconds.max(1);
        let first = steps.len().saturating_sub(usize::try_from(wanted).unwrap_or(usize::MAX));
        let seconds = std::time::Duration::from_secs(history.seconds.max(1)).as_secs_f64();
        let number = |count: u64| u32::try_from(count).map_or(f64::from(u32::MAX), f64::from);
        let steps = steps.get(first..).unwrap_or_default().iter().map(|count| count.map(number)).collect();
        Self { name, steps, seconds }
    }

    fn draw(&self, frame: &mut Frame<'_>, area: Rect, style: Style, palette: Palette) {
        let latest = self.steps.last().copied().flatten().unwrap_or_default();
        let peak = self.steps.iter().flatten().copied().fold(0.0, f64::max);
        let mut title =
            vec![Span::styled(format!(" {} {} ", self.name, words::rate(latest / self.seconds)), style)];
        if area.width >= WIDE_TITLE {
            title.push(Span::styled(format!("peak {} ", words::rate(peak / self.seconds)), palette.faint()));
        }
        let bars = self.bars(area.width.into());
        let chart = Sparkline::default().data(bars).style(style).max(bar(peak).unwrap_or(0).max(1));
        frame.render_widget(chart.block(pane(Line::from(title), palette.faint())), area);
    }

    /// One bar for each column: the highest of the steps that fall into it, or none where the gate knows none.
    fn bars(&self, width: usize) -> Vec<Option<u64>> {
        let count = self.steps.len();
        let column = |at: usize| {
            let first = at * count / width;
            let last = ((at + 1) * count / width).max(first + 1).min(count);
            let steps = self.steps.get(first..last).unwrap_or_default();
            steps.iter().flatten().copied().reduce(f64::max).and_then(bar)
        };
        (0..width).map(column).collect()
    }
}

/// A height in hundredths, so that small numbers have a height too.
fn bar(value: f64) -> Option<u64> {
    let hundredths = std::time::Duration::try_from_secs_f64(value).ok()?.as_millis() / 10;
    u64::try_from(hundredths).ok()
}

/// Columns.
const WIDE_TITLE: u16 = 34;

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(steps: &[Option<f64>], width: usize) -> Vec<Option<u64>> {
        RateChart { name: "", steps: steps.to_vec(), seconds: 5.0 }.bars(width)
    }

    #[test]
    fn more_steps_than_columns_keep_their_peaks_and_fewer_are_stretched() {
        let steps = [Some(1.0), Some(9.0), None, None, Some(2.0), Some(0.0)];
        assert_eq!(bars(&steps, 3), [Some(900), None, Some(200)]);
        assert_eq!(bars(&steps[..2], 4), [Some(100), Some(100), Some(900), Some(900)]);
        assert_eq!(bars(&[], 2), [None, None]);
        assert_eq!(bars(&steps, 0), []);
        assert_eq!(bars(&[Some(f64::MAX), Some(-1.0)], 2), [None, None]);
    }
}
