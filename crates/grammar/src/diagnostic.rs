//! Diagnostics: what is wrong with the file, where, and what would be right, for people and for programs.
//!
//! A diagnostic carries its source text, so it can be shown long after the file has changed. Printing is left to the
//! caller: a diagnostic renders to a string without lines that its source hides. The source may also be an environment
//! variable, an argument or a list; the caret then points into that text.

use std::ops::Range;
use std::sync::Arc;

use super::line_starts::LineStarts;
use super::record::Optional;
use annotate_snippets::{AnnotationKind, Level, Origin, Renderer, Snippet};

/// A text that holds settings. It may hold secrets, so only [`Diagnostic::render`] shows lines of it.
pub struct SourceText {
    /// The kind, by which diagnostics are sorted: the file and those that it includes, then its overrides, then the
    /// lists, pages and presets that it names.
    pub kind: SourceKind,
    /// The file's path, `environment NAME`, `--set KEY` or `preset NAME`.
    pub name: String,
    /// The text as it was read.
    pub text: String,
    /// What is special in the files of a program.
    pub dialect: &'static Dialect,
}

/// What is special in the files of a program.
pub struct Dialect {
    /// Whether a line that a range of bytes touches may hold a secret: no diagnostic shows it.
    pub hides: fn(&SourceText, &Range<usize>) -> bool,
    /// The hint where a value is `${...}` that is not a secret.
    pub no_secret: fn() -> String,
    /// Keys of the top level that people write below the first table.
    pub top_keys: &'static [&'static str],
}

impl Dialect {
    /// That of plain TOML.
    pub const PLAIN: Self = Self { hides: |_, _| false, no_secret: String::new, top_keys: &[] };
}

impl PartialEq for SourceText {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.name, &self.text) == (other.kind, &other.name, &other.text)
    }
}

impl Eq for SourceText {}

/// The kind of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// The file.
    File,
    /// A file that it includes.
    Included,
    /// A variable.
    Environment,
    /// An argument.
    Set,
    /// A list or a page that the file names.
    Referenced,
    /// Tables that come with the program.
    Preset,
}

impl SourceText {
    /// The line and the column of a byte, both from 1; columns are characters.
    fn position(&self, at: usize) -> (usize, usize) {
        LineStarts::of(&self.text).position(at)
    }
}

impl std::fmt::Debug for SourceText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SourceText({:?} {}, {} bytes hidden)", self.kind, self.name, self.text.len())
    }
}

/// A range of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    source: Arc<SourceText>,
    /// Bytes; `None` means the source as a whole.
    range: Option<Range<usize>>,
}

impl Spot {
    /// These bytes of a source.
    #[must_use]
    pub fn new(source: &Arc<SourceText>, range: Range<usize>) -> Self {
        Self { source: Arc::clone(source), range: Some(range) }
    }

    /// A source as a whole.
    #[must_use]
    pub fn whole(source: &Arc<SourceText>) -> Self {
        Self { source: Arc::clone(source), range: None }
    }

    /// Whether it is in the file, or in one that this includes.
    #[must_use]
    pub fn is_in_file(&self) -> bool {
        matches!(self.source.kind, SourceKind::File | SourceKind::Included)
    }

    /// As in `sites/shop.toml:3:8`.
    #[must_use]
    pub fn place(&self) -> String {
        let (line, column) = self.source.position(self.start());
        format!("{}:{line}:{column}", self.source.name)
    }

    /// The same, by the lines of its source: for many spots of one source.
    #[must_use]
    pub fn place_in(&self, lines: &LineStarts<'_>) -> String {
        let (line, column) = lines.position(self.start());
        format!("{}:{line}:{column}", self.source.name)
    }

    /// Whether the operator wrote it, and not a preset.
    #[must_use]
    pub fn is_in_config(&self) -> bool {
        self.source.kind != SourceKind::Preset
    }

    /// Whether it is in a variable.
    #[must_use]
    pub fn is_in_environment(&self) -> bool {
        self.source.kind == SourceKind::Environment
    }

    /// What is special in the file that it is in.
    #[must_use]
    pub fn dialect(&self) -> &'static Dialect {
        self.source.dialect
    }

    /// The key that diagnostics are sorted by.
    fn sort_key(&self) -> (SourceKind, &str, usize) {
        (self.source.kind, &self.source.name, self.start())
    }

    /// The first byte; 0 for a source as a whole.
    #[must_use]
    pub fn start(&self) -> usize {
        self.range.as_ref().map_or(0, |range| range.start)
    }

    /// The text at this spot.
    #[must_use]
    pub fn text(&self) -> &str {
        self.range.clone().and_then(|range| self.source.text.get(range)).unwrap_or_default()
    }

    /// A part of this spot, by bytes from its start. Only a string without escapes has parts: its value and its text
    /// are then the same but for the quotes. Otherwise the part is the whole spot.
    #[must_use]
    pub fn part(&self, value: &str, part: Range<usize>) -> Self {
        let found = self.range.clone().and_then(|range| {
            let text = self.source.text.get(range.clone())?;
            let quotes = (text.len().checked_sub(value.len())?) / 2;
            let inner = text.get(quotes..quotes.checked_add(value.len())?)?;
            (inner == value).then(|| range.start + quotes + part.start..range.start + quotes + part.end)
        });
        Self { source: Arc::clone(&self.source), range: found.or_else(|| self.range.clone()) }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The file is refused.
    Error,
    /// Legal, and surely not meant.
    Warning,
}

/// One mistake or warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// What would be right.
    pub hint: Option<String>,
    spot: Spot,
}

crate::records! {
    /// A mistake or a warning of a configuration.
    pub DiagnosticRecord {
        /// "error" or "warning".
        severity: String,
        /// What is wrong.
        message: String,
        /// What would be right.
        hint: Option<String>,
        /// The path of the file, or `environment NAME`, `--set KEY` or `preset NAME`.
        file: String,
        /// From 1; null for the file as a whole.
        line: Option<usize>,
        /// In characters, from 1.
        column: Option<usize>,
        /// Where it ends.
        end_line: Option<usize>,
        /// Where it ends.
        end_column: Option<usize>,
        /// All of it for people, with the line and a caret.
        text: Optional<String>,
    }
}

impl Diagnostic {
    /// The text for people: file, line, column, the line itself, a caret and the hint next to it. A line that may hold a
    /// secret is not shown. Ends with a newline.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = level.primary_title(self.message.as_str());
        let SourceText { name, text, .. } = &*self.spot.source;
        let help = self.hint.as_deref().map(|hint| Level::HELP.message(hint));
        let group = match &self.spot.range {
            Some(range) if (self.spot.source.dialect.hides)(&self.spot.source, range) => {
                let (line, column) = self.spot.source.position(range.start);
                title.element(Origin::path(name).line(line).char_column(column)).elements(help)
            }
            Some(range) => {
                let caret = AnnotationKind::Primary.span(range.clone()).label(self.hint.as_deref());
                title.element(Snippet::source(text).path(name).annotation(caret))
            }
            None => title.element(Origin::path(name)).elements(help),
        };
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let mut text = renderer.render(&[group]);
        text.push('\n');
        text
    }

    /// What it has in common with others about other names: the message and the hint without what they quote in backticks.
    #[must_use]
    pub fn form(&self) -> String {
        let texts = [Some(self.message.as_str()), self.hint.as_deref()];
        let unquoted = |text: &str| text.split('`').step_by(2).collect::<Vec<_>>().join("`");
        texts.into_iter().flatten().map(unquoted).collect::<Vec<_>>().join("\n")
    }

    /// As in `sites/shop.toml:3:8`.
    #[must_use]
    pub fn place(&self) -> String {
        self.spot.place()
    }

    /// For programs. Lines and columns count from 1, columns in characters; they are `None` for the file as a whole.
    #[must_use]
    pub fn record(&self) -> DiagnosticRecord {
        let start = self.spot.range.as_ref().map(|range| self.spot.source.position(range.start));
        let end = self.spot.range.as_ref().map(|range| self.spot.source.position(range.end));
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        DiagnosticRecord {
            severity: severity.to_owned(),
            message: self.message.clone(),
            hint: self.hint.clone(),
            file: self.file().to_owned(),
            line: start.map(|(line, _)| line),
            column: start.map(|(_, column)| column),
            end_line: end.map(|(line, _)| line),
            end_column: end.map(|(_, column)| column),
            text: Optional(None),
        }
    }

    /// The same with its text for people.
    #[must_use]
    pub fn record_with_text(&self) -> DiagnosticRecord {
        let text = self.render(false).trim_end().to_owned();
        DiagnosticRecord { text: Optional(Some(text)), ..self.record() }
    }

    /// The record as JSON.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self.record()).unwrap_or_default()
    }

    /// The file's path, or `environment NAME`, `--set KEY` or `preset NAME`.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.spot.source.name
    }

    /// Whether the file is refused because of it.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// All mistakes and warnings found so far.
#[derive(Debug, Clone, Default)]
pub struct Findings(Vec<Diagnostic>);

impl Findings {
    /// Adds a mistake; an empty hint is none.
    pub fn error(&mut self, spot: &Spot, message: impl Into<String>, hint: impl Into<String>) {
        self.add(Severity::Error, spot, message.into(), hint.into());
    }

    /// Adds a warning: legal, and surely not meant. An empty hint is none.
    pub fn warning(&mut self, spot: &Spot, message: impl Into<String>, hint: impl Into<String>) {
        self.add(Severity::Warning, spot, message.into(), hint.into());
    }

    /// Adds what was found elsewhere.
    pub fn extend(&mut self, others: &Self) {
        self.0.extend_from_slice(&others.0);
    }

    /// Whether there is a mistake among them.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(Diagnostic::is_error)
    }

    /// Sorted by source and line, without duplicates.
    #[must_use]
    pub fn sorted(mut self) -> Vec<Diagnostic> {
        self.0.sort_by(|a, b| a.spot.sort_key().cmp(&b.spot.sort_key()));
        self.0.dedup();
        self.0
    }

    fn add(&mut self, severity: Severity, spot: &Spot, message: String, hint: String) {
        let hint = Some(hint).filter(|hint| !hint.is_empty());
        self.0.push(Diagnostic { severity, message, hint, spot: spot.clone() });
    }
}

/// "did you mean `x`?" if a known name is near, otherwise the list of known names.
#[must_use]
pub fn suggest<'n>(given: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(given, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None if known.is_empty() => String::new(),
        None => {
            let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            format!("known: {}", names.join(", "))
        }
    }
}

/// The nearest known name, if it is near enough.
#[must_use]
pub fn nearest<'n>(given: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    // A longer text is not a typo, and the cost of the distance grows with the product of both lengths.
    if given.len() > 64 {
        return None;
    }
    let lower = given.to_lowercase();
    let distances = known.map(|name| (strsim::damerau_levenshtein(&lower, &name.to_lowercase()), name));
    let (distance, name) = distances.min_by_key(|&(distance, _)| distance)?;
    (distance <= (name.len() / 3).max(1)).then_some(name)
}

/// `1234567` as `1,234,567`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let start = digits.len() % 3;
    let mut groups: Vec<&str> = Vec::new();
    groups.extend(digits.get(..start).filter(|head| !head.is_empty()));
    groups.extend((start..digits.len()).step_by(3).filter_map(|at| digits.get(at..at + 3)));
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, range: Option<Range<usize>>) -> Diagnostic {
        let source = Arc::new(SourceText {
            kind: SourceKind::File,
            name: "config.toml".into(),
            text: text.into(),
            dialect: &Dialect::PLAIN,
        });
        let spot = range.map_or_else(|| Spot::whole(&source), |range| Spot::new(&source, range));
        let mut findings = Findings::default();
        findings.error(&spot, "unknown network `ofice`", "did you mean `office`?");
        findings.sorted().remove(0)
    }

    #[test]
    fn the_caret_stands_under_the_value_with_the_hint_beside_it() {
        let expected = "error: unknown network `ofice`\n --> config.toml:2:11\n  |\n2 | exempt = [\"ofice\"]\n  \
                        |           ^^^^^^^ did you mean `office`?\n";
        assert_eq!(found("\nexempt = [\"ofice\"]\n", Some(11..18)).render(false), expected);
        assert!(found("", None).render(true).contains('\u{1b}'));
    }

    #[test]
    fn a_record_counts_columns_in_characters() {
        let record = found("a = 1\n\u{e4} = \"x\"\n", Some(11..14)).record();
        assert_eq!((record.line, record.column), (Some(2), Some(5)));
        assert_eq!((record.end_line, record.end_column), (Some(2), Some(8)));
        assert_eq!(record.severity, "error");
        assert_eq!(found("", None).record().line, None);
    }

    #[test]
    fn a_near_name_is_suggested_and_far_ones_are_listed() {
        assert_eq!(suggest("ofice", ["office", "home"]), "did you mean `office`?");
        assert_eq!(suggest("Rate", ["rate"]), "did you mean `rate`?");
        assert_eq!(suggest("zzz", ["rate", "key"]), "known: `rate`, `key`");
        assert_eq!(suggest("zzz", []), "");
    }

    #[test]
    fn large_numbers_are_grouped_by_three() {
        assert_eq!(
            [0, 12, 123, 1234, 123_456, 1_234_567].map(grouped),
            ["0", "12", "123", "1,234", "123,456", "1,234,567"]
        );
    }
}
