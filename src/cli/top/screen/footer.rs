//! The last line: a question, what came of an action, or the keys.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::super::state::{OperatorAction, Prompt, TopState};
use super::Palette;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &TopState, palette: Palette) {
    let line = match (state.prompt(), state.message()) {
        (Prompt::Confirm(action), _) => question(action, palette),
        (Prompt::Search, _) => Line::from(vec![
            Span::styled("/", palette.strong()),
            Span::raw(state.search()),
            Span::styled("_", palette.strong()),
            Span::styled("  Enter keeps it, Esc ends it", palette.faint()),
        ]),
        (Prompt::Browse | Prompt::Help, Some(message)) => {
            let style = if message.is_error { palette.bad() } else { palette.good() };
            Line::styled(message.text.as_str(), style)
        }
        (Prompt::Browse | Prompt::Help, None) => hints(palette),
    };
    frame.render_widget(line, area);
}

/// The answer comes first, so that a small screen does not cut it off.
fn question(action: &OperatorAction, palette: Palette) -> Line<'static> {
    let words = match action {
        OperatorAction::Reset { client, limit } => format!("reset {client} under `{limit}`?"),
        OperatorAction::Exempt { client } => format!("exempt {client} for 1h?"),
    };
    Line::from(vec![Span::styled("y/n ", palette.warning()), Span::styled(words, palette.strong())])
}

fn hints(palette: Palette) -> Line<'static> {
    let keys = KEYS.iter().flat_map(|&(key, word)| {
        [Span::styled(key, palette.strong()), Span::styled(format!(" {word}  "), palette.faint())]
    });
    Line::from_iter(keys)
}

/// The most needed ones come first.
const KEYS: [(&str, &str); 9] = [
    ("?", "help"),
    ("q", "quit"),
    ("s", "sort"),
    ("/", "search"),
    ("123", "time"),
    ("l", "limit"),
    ("r", "reset"),
    ("e", "exempt"),
    ("p", "pause"),
];
