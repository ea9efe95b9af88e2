//! Finds the lines of many places of one text: each costs a search among the lines, and not a walk over all before it.

/// Where the lines of a text begin.
#[derive(Debug)]
pub struct LineStarts<'t> {
    text: &'t str,
    /// Rising, the first one 0.
    starts: Vec<usize>,
}

impl<'t> LineStarts<'t> {
    /// Those of this text.
    #[must_use]
    pub fn of(text: &'t str) -> Self {
        let after_newlines = text.match_indices('\n').map(|(newline, _)| newline + 1);
        Self { text, starts: std::iter::once(0).chain(after_newlines).collect() }
    }

    /// The line and the column of a byte, both from 1; columns are characters.
    #[must_use]
    pub fn position(&self, at: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|start| *start <= at);
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or_default();
        let before = self.text.get(start..at).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_and_columns_are_characters() {
        let text = "a\n\n\u{e4}\u{e4}b\nc";
        let lines = LineStarts::of(text);
        let positions = [0, 1, 2, 3, 7, 8, 9, 10].map(|at| lines.position(at));
        assert_eq!(positions, [(1, 1), (1, 2), (2, 1), (3, 1), (3, 3), (3, 4), (4, 1), (4, 2)]);
        assert_eq!(LineStarts::of("").position(0), (1, 1));
    }
}
