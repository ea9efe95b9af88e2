//! Paths of other programs as patterns of tollgate: exact ones, beginnings, and simple regular expressions.
//!
//! A pattern here has whole segments, so a beginning such as `/login` does not count `/login2`, and an expression is
//! carried over only if its wildcards can be whole segments. `*` for a part of a segment counts more than before.

/// The paths that a regular expression stands for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RegexPaths {
    pub(super) paths: Vec<String>,
    /// Whether they count more than the expression did.
    pub(super) is_wider: bool,
}

/// Everything that begins with a path, cut at a segment.
pub(super) fn beginning(path: &str) -> String {
    format!("{}/**", path.trim_end_matches('/'))
}

/// The paths of a regular expression; `None` if there are no patterns for it.
pub(super) fn of_regex(regex: &str) -> Option<RegexPaths> {
    let (is_anchored, rest) = match regex.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, regex),
    };
    let mut parser = RegexParser { letters: rest.chars().collect(), at: 0, depth: 0 };
    let mut texts = parser.alternatives()?;
    if parser.at < parser.letters.len() {
        return None;
    }
    let mut found = RegexPaths::default();
    for text in &mut texts {
        // Nothing follows the end, as in `(/|$)(.*)`.
        *text = text.replace(&format!("{END}{ANYTHING}"), &END.to_string());
        let is_open = match text.strip_suffix(END) {
            Some(closed) => {
                *text = closed.to_owned();
                false
            }
            None => true,
        };
        let (path, is_wider) = path_of(text, is_anchored, is_open)?;
        found.is_wider |= is_wider;
        if !found.paths.contains(&path) {
            found.paths.push(path);
        }
    }
    Some(found)
}

/// The pattern of one alternative, and whether it counts more.
fn path_of(text: &str, is_anchored: bool, is_open: bool) -> Option<(String, bool)> {
    let text = match (is_anchored, text.starts_with('/')) {
        (true, true) => text.to_owned(),
        // `/login` somewhere in a path: the segments before it may be any.
        (false, true) => format!("/{ANYTHING}{text}"),
        (_, false) => return None,
    };
    let (mut path, mut is_wider) = (String::new(), false);
    let mut segments = text.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        if segment.contains(END) {
            return None;
        }
        let mut letters = segment.chars();
        match (letters.next(), letters.next()) {
            (None, _) => {}
            (Some(ANYTHING), None) => path.push_str("/**"),
            (Some(SOME), None) => path.push_str("/*"),
            // A rest behind the beginning of a name, as in `/login.*`.
            _ if segment.contains(ANYTHING) && is_last && segment.ends_with(ANYTHING) => {
                let name = segment.trim_end_matches(ANYTHING);
                if name.contains([ANYTHING, SOME]) || name.is_empty() {
                    return None;
                }
                path.push_str(&format!("/{name}/**"));
            }
            _ if segment.contains(ANYTHING) => return None,
            _ if segment.contains(SOME) => {
                path.push_str("/*");
                is_wider = true;
            }
            _ => path.push_str(&format!("/{segment}")),
        }
    }
    if path.is_empty() && !is_open {
        return Some(("/".to_owned(), is_wider));
    }
    if is_open && !path.ends_with("/**") {
        path.push_str("/**");
    }
    Some((path, is_wider))
}

/// Reads the part of regular expressions that such files use; alternatives become texts with [`SOME`], [`ANYTHING`] and
/// [`END`].
struct RegexParser {
    letters: Vec<char>,
    at: usize,
    depth: usize,
}

impl RegexParser {
    fn next_is(&mut self, expected: char) -> bool {
        let is_next = self.letters.get(self.at) == Some(&expected);
        self.at += usize::from(is_next);
        is_next
    }

    fn alternatives(&mut self) -> Option<Vec<String>> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let mut all = self.sequence()?;
        while self.next_is('|') {
            all.extend(self.sequence()?);
            if all.len() > MOST {
                return None;
            }
        }
        self.depth -= 1;
        Some(all)
    }

    fn sequence(&mut self) -> Option<Vec<String>> {
        let mut texts = vec![String::new()];
        while let Some(letter) =
            self.letters.get(self.at).copied().filter(|letter| !matches!(letter, '|' | ')'))
        {
            self.at += 1;
            let piece = self.piece(letter)?;
            let piece = self.repeated(piece)?;
            if texts.len() * piece.len() > MOST {
                return None;
            }
            texts =
                texts.iter().flat_map(|text| piece.iter().map(move |end| format!("{text}{end}"))).collect();
        }
        Some(texts)
    }

    /// One letter, class or group.
    fn piece(&mut self, letter: char) -> Option<Vec<String>> {
        let one = |letter: char| Some(vec![letter.to_string()]);
        match letter {
            '$' => one(END),
            '.' => one(SOME_LETTER),
            '\\' => {
                let escaped = *self.letters.get(self.at)?;
                self.at += 1;
                match escaped {
                    'd' | 'w' => one(SOME),
                    _ if escaped.is_alphanumeric() => None,
                    _ => one(escaped),
                }
            }
            '[' => self.class(),
            '(' => {
                if self.next_is('?') && !self.next_is(':') {
                    return None;
                }
                let all = self.alternatives()?;
                self.next_is(')').then_some(all)
            }
            '^' | '*' | '+' | '?' | '{' | '}' | SOME | ANYTHING | END | SOME_LETTER => None,
            _ if letter.is_control() || letter.is_whitespace() => None,
            _ => one(letter),
        }
    }

    /// A class is some letter of a segment, or of any if it leaves out other letters than the slash.
    fn class(&mut self) -> Option<Vec<String>> {
        let end = self.letters[self.at..].iter().position(|letter| *letter == ']')?;
        let class: String = self.letters[self.at..self.at + end].iter().collect();
        self.at += end + 1;
        let is_within = match class.strip_prefix('^') {
            Some(left_out) => left_out.contains('/'),
            None => !class.contains('/'),
        };
        is_within.then(|| vec![SOME.to_string()])
    }

    /// The piece, repeated by the mark behind it.
    fn repeated(&mut self, piece: Vec<String>) -> Option<Vec<String>> {
        let is_any = piece == [SOME_LETTER.to_string()];
        if self.next_is('*') || self.next_is('+') {
            self.next_is('?');
            let is_class = piece == [SOME.to_string()];
            return match is_any {
                true => Some(vec![ANYTHING.to_string()]),
                false => is_class.then_some(piece),
            };
        }
        if self.next_is('?') {
            let empty = std::iter::once(String::new());
            return (!is_any).then(|| empty.chain(piece).collect());
        }
        if self.next_is('{') {
            let end = self.letters[self.at..].iter().position(|letter| *letter == '}')?;
            self.at += end + 1;
            return (piece == [SOME.to_string()]).then_some(piece);
        }
        // A dot that nobody escaped is meant as a dot.
        Some(if is_any { vec![".".to_owned()] } else { piece })
    }
}

/// Letters within a segment.
const SOME: char = '\u{1}';
/// Any letters, slashes as well.
const ANYTHING: char = '\u{2}';
/// The end of the path.
const END: char = '\u{3}';
/// One letter of any kind.
const SOME_LETTER: char = '\u{4}';
/// Paths of one expression.
const MOST: usize = 32;
/// Groups within groups of an expression.
const DEEPEST: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn paths(regex: &str) -> Vec<String> {
        of_regex(regex).map(|found| found.paths).unwrap_or_default()
    }

    #[test]
    fn alternatives_become_a_path_each() {
        assert_eq!(paths(r"^/(login|signin)$"), ["/login", "/signin"]);
        assert_eq!(paths(r"^/(wp-login|xmlrpc)\.php$"), ["/wp-login.php", "/xmlrpc.php"]);
        assert_eq!(paths(r"/(wp-login|xmlrpc)\.php$"), ["/**/wp-login.php", "/**/xmlrpc.php"]);
        assert_eq!(paths(r"^/login/?$"), ["/login"]);
    }

    #[test]
    fn wildcards_become_segments() {
        assert_eq!(paths("^/api/[^/]+/session$"), ["/api/*/session"]);
        assert_eq!(paths("^/api/.*/session$"), ["/api/**/session"]);
        assert_eq!(paths("^/api/"), ["/api/**"]);
        assert_eq!(paths("^/admin.*"), ["/admin/**"]);
        assert_eq!(paths("^/.*"), ["/**"]);
        assert_eq!(paths("^/api(/|$)(.*)"), ["/api/**", "/api"]);
    }

    #[test]
    fn a_part_of_a_segment_counts_the_segment() {
        let found = of_regex(r"^/user-\d+/login$").unwrap();
        assert_eq!((found.paths, found.is_wider), (vec!["/*/login".to_owned()], true));
    }

    #[test]
    fn an_expression_without_a_pattern_is_not_carried_over() {
        for regex in
            [r"\.php$", "^/a.*b$", "(", "^/(?!x)", r"^/\bx", "^/[", "login", "^", "^/(a|b", ")", "^/a{2}"]
        {
            assert_eq!(of_regex(regex), None, "{regex}");
        }
    }

    proptest! {
        #[test]
        fn any_expression_is_read_or_left(regex in r"[/a-c.*+?()|\[\]^$\\{}d:]{0,40}", text in ".*") {
            for path in [regex, text].iter().filter_map(|regex| of_regex(regex)).flat_map(|found| found.paths) {
                prop_assert!(path.starts_with('/'), "{path}");
            }
        }
    }
}
