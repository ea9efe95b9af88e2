//! `[networks]`: names for prefixes, and the meaning of an entry of `exempt`, `rates` or `trust`.

use std::sync::Arc;

use ipnet::IpNet;
use tollgate_grammar::diagnostic::suggest;
use tollgate_grammar::{Findings, List, Located, RawNamed, SourceText, Spot, name, refuse};

use super::super::values::Prefix;
use super::files::Files;

/// The named networks.
pub(super) struct Networks<'r>(Vec<(&'r str, Vec<IpNet>)>);

impl<'r> Networks<'r> {
    /// Reads every list, and the files that the lists name.
    pub(super) fn check(raw: &'r [RawNamed<List>], files: &mut Files<'_>, f: &mut Findings) -> Self {
        let networks = raw.iter().map(|network| {
            check_network_name(&network.name, f);
            let mut prefixes = Vec::new();
            for entry in &network.value.value {
                match entry.value.strip_prefix('@') {
                    Some(path) => prefixes.extend(read_list(path, &entry.spot, files, f)),
                    None => prefixes.extend(prefix(&entry.value, &entry.spot, f)),
                }
            }
            (network.name.value.as_str(), prefixes)
        });
        Self(networks.collect())
    }

    /// The prefixes that a name or a prefix stands for.
    pub(super) fn resolve(&self, entry: &Located<String>, f: &mut Findings) -> Vec<IpNet> {
        let text = entry.value.as_str();
        if let Some((_, prefixes)) = self.0.iter().find(|(name, _)| *name == text) {
            return prefixes.clone();
        }
        if text.contains([':', '/']) || text.starts_with(|c: char| c.is_ascii_digit()) {
            return prefix(text, &entry.spot, f).into_iter().collect();
        }
        let hint = match self.0.is_empty() {
            true => format!("there is no network yet: write [networks] with {text} = \"203.0.113.0/24\""),
            false => suggest(text, self.0.iter().map(|(name, _)| *name)),
        };
        f.error(&entry.spot, format!("unknown network `{text}`"), hint);
        Vec::new()
    }
}

fn check_network_name(called: &Located<String>, f: &mut Findings) {
    if called.value == "off" || called.value.parse::<Prefix>().is_ok() {
        let message = format!("a network cannot be called `{}`", called.value);
        f.error(&called.spot, message, "write a name here and the prefixes behind the `=`");
    } else {
        name::check(called, f);
    }
}

/// Reads a file with one prefix a line; blank lines, and text behind a `#`, are ignored.
fn read_list(path: &str, spot: &Spot, files: &mut Files<'_>, f: &mut Findings) -> Vec<IpNet> {
    let Some(source) = files.text(path, spot, f) else { return Vec::new() };
    let (mut prefixes, mut wrong) = (Vec::new(), 0);
    for (start, line) in lines(&source) {
        let text = line.split('#').next().unwrap_or_default();
        let start = start + (text.len() - text.trim_start().len());
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        let spot = Spot::new(&source, start..start + text.len());
        if wrong == MAX_MISTAKES {
            f.error(&spot, "too many mistakes: the list was not read beyond this line", "");
            break;
        }
        let prefix = prefix(text, &spot, f);
        wrong += usize::from(prefix.is_none());
        prefixes.extend(prefix);
    }
    prefixes
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

/// Whether a text is an address or a prefix.
pub(super) fn is_prefix(text: &str) -> bool {
    text.contains(['.', ':']) && text.parse::<Prefix>().is_ok()
}

fn prefix(text: &str, spot: &Spot, f: &mut Findings) -> Option<IpNet> {
    match text.parse::<Prefix>() {
        Ok(prefix) => {
            if prefix.host_bits {
                f.warning(
                    spot,
                    format!("`{text}` has bits set beyond its length"),
                    format!("it means {}", prefix.net),
                );
            }
            Some(prefix.net)
        }
        Err(mistake) => {
            refuse(spot, text, mistake, f);
            None
        }
    }
}

/// A file may have millions of lines and not be a list at all.
const MAX_MISTAKES: usize = 10;
