//! The colours of the live view: the terminal's own sixteen, or none of them.

use ratatui::style::{Color, Modifier, Style};

/// Chooses styles by meaning. Without colours, weight alone makes the difference.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Palette {
    is_colored: bool,
}

impl Palette {
    pub(in super::super) fn new(is_colored: bool) -> Self {
        Self { is_colored }
    }

    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn faint(self) -> Style {
        self.color(Style::new(), Color::DarkGray, Modifier::DIM)
    }

    pub(super) fn good(self) -> Style {
        self.color(Style::new(), Color::Green, Modifier::empty())
    }

    pub(super) fn warning(self) -> Style {
        self.color(Style::new(), Color::Yellow, Modifier::BOLD)
    }

    pub(super) fn bad(self) -> Style {
        self.color(Style::new(), Color::Red, Modifier::BOLD)
    }

    /// A line that must not be overlooked.
    pub(super) fn alarm(self) -> Style {
        self.bad().add_modifier(Modifier::BOLD | Modifier::REVERSED)
    }

    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn color(self, style: Style, color: Color, without: Modifier) -> Style {
        if self.is_colored { style.fg(color) } else { style.add_modifier(without) }
    }
}
