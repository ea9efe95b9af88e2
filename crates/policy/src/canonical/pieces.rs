//! One form of a path, split at everything that a server could read as a separator, and all its readings.
//!
//! A reading joins pieces again, drops parameters and resolves dots: it is a list of slices of the form, so that
//! nothing is copied. Properties of a piece are found once and not for each reading.

use smallvec::SmallVec;

use super::forms::{ENCODED_BACKSLASH, ENCODED_SLASH};
use super::{ReadingBudget, TooManyReadings, fold_segment, trim_segment};

/// The segments of one reading.
pub(super) type Segments<'f> = SmallVec<[&'f [u8]; 16]>;

/// A form of a path, split at its separators.
pub(super) struct PathPieces<'f> {
    form: &'f [u8],
    pieces: SmallVec<[PathPiece; 16]>,
    has_backslash: bool,
    has_encoded: bool,
    has_parameters: bool,
}

/// The bytes between two separators.
struct PathPiece {
    end: usize,
    /// The start of its parameters.
    parameters: Option<usize>,
    /// Whether it has two colons: see [`fold_segment`].
    has_stream: bool,
    /// The separator that ends it; a slash at the end of the form.
    separator: u8,
}

impl<'f> PathPieces<'f> {
    /// Splits a form that begins with a slash.
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

    /// Calls `callback` with all readings, the plainest first; some may be equal.
    pub(super) fn show_readings(
        &self,
        budget: &mut ReadingBudget,
        callback: &mut impl FnMut(&[&[u8]]),
    ) -> Result<(), TooManyReadings> {
        let mut segments = Segments::new();
        for separators in self.separators() {
            for &parameters in choices(self.has_parameters) {
                let mut read = |dots| -> Result<SpecialSegments, TooManyReadings> {
                    budget.take(self.pieces.len() + self.form.len() / BYTES_A_SEGMENT)?;
                    let special = self.read(separators, parameters, dots, &mut segments);
                    callback(&segments);
                    Ok(special)
                };
                let special = read(DotSegments::ResolvedLast)?;
                // Without special segments the other readings are the same.
                if special.dot_dot && special.empty {
                    read(DotSegments::ResolvedFirst)?;
                }
                if special.dot_dot || special.dot {
                    read(DotSegments::Unchanged)?;
                }
            }
        }
        Ok(())
    }

    /// The strict reading.
    pub(super) fn strictly(&self) -> Segments<'f> {
        let mut segments = Segments::new();
        self.read(PathSeparators::default(), false, DotSegments::ResolvedLast, &mut segments);
        segments
    }

    /// The separators that make a difference for this form.
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
        let mut special = SpecialSegments::default();
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
                    special.empty = true;
                    if dots == DotSegments::ResolvedFirst {
                        segments.push(segment);
                    }
                }
                b"." if dots != DotSegments::Unchanged => special.dot = true,
                b".." if dots != DotSegments::Unchanged => {
                    special.dot_dot = true;
                    segments.pop();
                }
                _ => segments.push(segment),
            }
        }
        segments.retain(|segment| !segment.is_empty() && !is_session(segment));
        for segment in segments.iter_mut() {
            *segment = if has_streams { fold_segment(segment) } else { trim_segment(segment) };
        }
        special
    }
}

/// Special segments in a reading, which servers treat differently.
#[derive(Default)]
struct SpecialSegments {
    empty: bool,
    dot: bool,
    dot_dot: bool,
}

/// The bytes other than `/` that separate segments.
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

/// When `.` and `..` are resolved: after repeated slashes were merged, before, or never.
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

/// The number of bytes of a form that cost about as much as one more segment in each of its readings.
pub(super) const BYTES_A_SEGMENT: usize = 32;
