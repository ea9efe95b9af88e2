//! Files with an entry a line, as networks, hosts and accounts name them by `@FILE`.

use std::sync::Arc;

use tollgate_grammar::{Findings, Located, SourceText, Spot};

use super::files::Files;

/// Gives the entries of a file to `take`, which says whether it took one. Blank lines, and text behind a `#`, are ignored.
/// After ten mistakes the rest is not read. Returns whether the file could be read.
pub(super) fn read(
    path: &str,
    spot: &Spot,
    files: &mut Files<'_>,
    f: &mut Findings,
    mut take: impl FnMut(Located<String>, &mut Findings) -> bool,
) -> bool {
    let Some(source) = files.text(path, spot, f) else { return false };
    let mut wrong = 0;
    for (start, line) in lines(&source) {
        let text = line.split('#').next().unwrap_or_default();
        let start = start + (text.len() - text.trim_start().len());
        let value = text.trim().to_owned();
        if value.is_empty() {
            continue;
        }
        let spot = Spot::new(&source, start..start + value.len());
        if wrong == MAX_MISTAKES {
            f.error(&spot, "too many mistakes: the list was not read beyond this line", "");
            return true;
        }
        wrong += usize::from(!take(Located { value, spot }, f));
    }
    true
}

/// Lines with their offsets, without the byte order mark that some editors write.
pub(super) fn lines(source: &Arc<SourceText>) -> impl Iterator<Item = (usize, &str)> {
    let mark = if source.text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut next = mark;
    source.text[mark..].split_inclusive('\n').map(move |line| {
        let start = next;
        next += line.len();
        (start, line)
    })
}

/// A file may have millions of lines and not be a list at all.
const MAX_MISTAKES: usize = 10;
