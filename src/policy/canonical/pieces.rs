//! One form of a path, cut at everything that some server takes for a separator, and all its readings.
//!
//! A reading joins pieces again, drops parameters and resolves dots: it is a list of parts of the form, so that none of
//! them is copied. What is known of a piece is found out once and not for each reading.

use smallvec::SmallVec;

use super::forms::{ENCODED_BACKSLASH, ENCODED_SLASH};
use super::{ReadingBudget, TooManyReadings, fold_segment, trim_segment};

/// The segments of one reading.
pub(super) type Segments<'f> = SmallVec<[&'f [u8]; 16]>;

/// A form of a path between its separators.
pub(super) struct PathPieces<'f> {
    form: &'f [u8],
    pieces: SmallVec<[PathPiece; 16]>,
    has_backslash: bool,
    has_encoded: bool,
    has_parameters: bool,
}

/// What stands between two separators.
struct PathPiece {
    end: usize,
    /// Where its parameters begin.
    parameters: Option<usize>,
    /// Whether it has two colons: see [`fold_segment`].
    has_stream: bool,
    /// What ends it; a slash at the end of the form.
    separator: u8,
}

impl<'f> PathPieces<'f> {
    /// Of a form that begins with a slash.
    pub(super) fn of(form: &'f [u8]) -> Self {
        let mut all = Self {
            form,
            pieces: SmallVec::new(),
            has_backslash: false,
            has_encoded: false,
            has_parameters: false,
        };
        let (mut parameters, mut has_stream, mut colons) = (None, false, false);
        for (at, &byte) in form.iter().enumerate().skip(1) {
            match byte {
                b'/' | b'\\' | ENCODED_SLASH | ENCODED_BACKSLASH => {
                    all.pieces.push(PathPiece { end: at, parameters, has_stream, separator: byte });
                    all.has_backslash |= matches!(byte, b'\\' | ENCODED_BACKSLASH);
                    all.has_encoded |= matches!(byte, ENCODED_SLASH | ENCODED_BACKSLASH);
                    (parameters, has_stream) = (None, false);
                }
                b';' if parameters.is_none() => {
                    parameters = Some(at);
                    all.has_parameters = true;
                }
                b':' => has_stream |= colons,
                _ => {}
            }
            colons = byte == b':';
        }
        all.pieces.push(PathPiece { end: form.len(), parameters, has_stream, separator: b'/' });
        all
    }

    /// All readings, the plainest first; some of them may be the same.
    pub(super) fn show_readings(
        &self,
        budget: &mut ReadingBudget,
        visit: &mut impl FnMut(&[&[u8]]),
    ) -> Result<(), TooManyReadings> {
        let mut segments = Segments::new();
        for separators in self.separators() {
            for &parameters in choices(self.has_parameters) {
                let mut read = |dots| -> Result<SpecialSegments, TooManyReadings> {
                    budget.take(self.pieces.len() + self.form.len() / BYTES_A_SEGMENT)?;
                    let seen = self.read(separators, parameters, dots, &mut segments);
                    visit(&segments);
                    Ok(seen)
                };
                let seen = read(DotSegments::ResolvedLast)?;
                // Without these the others are the same.
                if seen.dot_dot && seen.empty {
                    read(DotSegments::ResolvedFirst)?;
                }
                if seen.dot_dot || seen.dot {
                    read(DotSegments::Unchanged)?;
                }
            }
        }
        Ok(())
    }

    /// The one reading that is not lenient.
    pub(super) fn strictly(&self) -> Segments<'f> {
        let mut segments = Segments::new();
        self.read(PathSeparators::default(), false, DotSegments::ResolvedLast, &mut segments);
        segments
    }

    /// The choices that make a difference for this form.
    fn separators(&self) -> impl Iterator<Item = PathSeparators> + use<> {
        let encoded = choices(self.has_encoded);
        choices(self.has_backslash).iter().flat_map(move |&backslash| {
            encoded.iter().map(move |&encoded| PathSeparators { backslash, encoded })
        })
    }

    fn read(
        &self,
        separators: PathSeparators,
        strip: bool,
        dots: DotSegments,
        segments: &mut Segments<'f>,
    ) -> SpecialSegments {
        segments.clear();
        let mut seen = SpecialSegments::default();
        let mut has_streams = false;
        let (mut start, mut cut, mut has_stream) = (1, None, false);
        for piece in &self.pieces {
            has_stream |= piece.has_stream;
            if strip && cut.is_none() {
                cut = piece.parameters;
            }
            if !separators.split(piece.separator) {
                continue;
            }
            let segment = &self.form[start..cut.unwrap_or(piece.end)];
            has_streams |= has_stream;
            (start, cut, has_stream) = (piece.end + 1, None, false);
            match segment {
                b"" => {
                    seen.empty = true;
                    if dots == DotSegments::ResolvedFirst {
                        segments.push(segment);
                    }
                }
                b"." if dots != DotSegments::Unchanged => seen.dot = true,
                b".." if dots != DotSegments::Unchanged => {
                    seen.dot_dot = true;
                    segments.pop();
                }
                _ => segments.push(segment),
            }
        }
        segments.retain(|segment| !segment.is_empty() && !is_session(segment));
        for segment in segments.iter_mut() {
            *segment = if has_streams { fold_segment(segment) } else { trim_segment(segment) };
        }
        seen
    }
}

/// What stood in a form for which servers differ.
#[derive(Default)]
struct SpecialSegments {
    empty: bool,
    dot: bool,
    dot_dot: bool,
}

/// Which bytes separate segments besides `/`.
#[derive(Clone, Copy, Default)]
struct PathSeparators {
    backslash: bool,
    encoded: bool,
}

impl PathSeparators {
    fn split(self, byte: u8) -> bool {
        match byte {
            b'\\' => self.backslash,
            ENCODED_SLASH => self.encoded,
            ENCODED_BACKSLASH => self.encoded && self.backslash,
            _ => true,
        }
    }
}

/// When `.` and `..` are resolved: after doubled slashes were merged, before, or never.
#[derive(Clone, Copy, PartialEq)]
enum DotSegments {
    ResolvedLast,
    ResolvedFirst,
    Unchanged,
}

fn choices(makes_a_difference: bool) -> &'static [bool] {
    if makes_a_difference { &[false, true] } else { &[false] }
}

/// ASP.NET's cookieless sessions: `/(S(lit3py55t21z5v55vlm25s55))/login.aspx`.
fn is_session(segment: &[u8]) -> bool {
    matches!(segment, [b'(', letter, b'(', .., b')', b')'] if letter.is_ascii_alphabetic())
}

/// So many bytes of a form cost about as much as one more segment of each of its readings.
pub(super) const BYTES_A_SEGMENT: usize = 32;
