//! The page of keys, over everything else.

use ratatui::Frame;
use ratatui::layout::{Constraint, Flex, Layout};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::Palette;

pub(super) fn draw(frame: &mut Frame<'_>, palette: Palette) {
    let height = u16::try_from(HELP.len() + 2).unwrap_or(u16::MAX);
    let [area] = Layout::vertical([Constraint::Max(height)]).flex(Flex::Center).areas(frame.area());
    let [area] = Layout::horizontal([Constraint::Max(WIDTH)]).flex(Flex::Center).areas(area);
    let lines = HELP.iter().map(|&(key, words)| {
        Line::from(vec![Span::styled(format!(" {key:<9} "), palette.strong()), Span::raw(words)])
    });
    let block = Block::bordered().title(" keys ").border_style(palette.faint());
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).block(block), area);
}

const HELP: [(&str, &str); 13] = [
    ("q Ctrl-C", "quit"),
    ("s", "by refused, attempts, address"),
    ("/", "search, Esc ends it"),
    ("1 2 3", "last 1, 10 or 60 minutes"),
    ("l", "only one limit, in turn"),
    ("↓ ↑ Tab", "choose a client"),
    ("r", "reset its bucket"),
    ("e", "exempt it for an hour"),
    ("p", "pause"),
    ("", ""),
    ("≥", "at least: the list is bounded"),
    ("wait", "until the next token"),
    ("would", "refused, if it were enforced"),
];
const WIDTH: u16 = 46;
