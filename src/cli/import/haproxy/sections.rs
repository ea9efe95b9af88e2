//! The syntax of HAProxy: sections, lines and words. It knows no keyword but those that begin a section.

/// A section that handles connections.
#[derive(Debug)]
pub(in crate::cli::import) struct ProxySection {
    /// As in `frontend`.
    pub(in crate::cli::import) kind: String,
    pub(in crate::cli::import) name: String,
    pub(in crate::cli::import) lines: Vec<ConfigLine>,
}

/// A line that is not empty.
#[derive(Debug)]
pub(in crate::cli::import) struct ConfigLine {
    /// From 1.
    pub(in crate::cli::import) number: usize,
    pub(in crate::cli::import) words: Vec<String>,
}

/// All sections; lines before the first are those of one without a name.
pub(in crate::cli::import) fn parse(text: &str) -> Vec<ProxySection> {
    let mut sections = vec![ProxySection { kind: String::new(), name: String::new(), lines: Vec::new() }];
    for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let words = words(line);
        let Some(kind) = words.first() else { continue };
        match KINDS.contains(&&**kind) {
            true => {
                let name = words.get(1).cloned().unwrap_or_default();
                sections.push(ProxySection { kind: kind.clone(), name, lines: Vec::new() });
            }
            false => {
                if let Some(section) = sections.last_mut() {
                    section.lines.push(ConfigLine { number: at + 1, words });
                }
            }
        }
    }
    sections
}

fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_open) = (Vec::new(), String::new(), false);
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', None | Some('"')) => {
                is_open = true;
                match letters.next() {
                    // Expressions keep their backslashes; only what would end a word loses it.
                    Some(escaped @ (' ' | '#' | '"' | '\'' | '\\')) => word.push(escaped),
                    Some(escaped) => word.extend(['\\', escaped]),
                    None => {}
                }
            }
            (_, Some(open)) if letter == open => quote = None,
            (_, Some(_)) => word.push(letter),
            ('"' | '\'', None) => (quote, is_open) = (Some(letter), true),
            ('#', None) => break,
            (_, None) if letter.is_whitespace() => {
                if is_open {
                    words.push(std::mem::take(&mut word));
                }
                is_open = false;
            }
            _ => {
                word.push(letter);
                is_open = true;
            }
        }
    }
    if is_open {
        words.push(word);
    }
    words
}

const KINDS: [&str; 12] = [
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "peers",
    "resolvers",
    "userlist",
    "cache",
    "program",
    "mailers",
    "ring",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_words_and_sections_names() {
        let sections =
            parse("global\n  daemon # yes\nfrontend web\n  acl a path_reg ^/x\\.y 'b c' \"d\\\"e\"\n\n");
        assert_eq!((&*sections[2].kind, &*sections[2].name), ("frontend", "web"));
        assert_eq!(sections[1].lines[0].words, ["daemon"]);
        assert_eq!(sections[2].lines[0].words, ["acl", "a", "path_reg", "^/x\\.y", "b c", "d\"e"]);
        assert_eq!(sections[2].lines[0].number, 4);
    }
}
