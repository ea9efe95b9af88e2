//! Redacts secrets in the text of a source before any line of it is shown.
//!
//! It works on the text, not on the tree, because the line with the secret may be invalid TOML or have a misspelt key.
//! It rather redacts too much: every value behind a key that looks like `secret`, and every value in `[device]` and
//! `[store]` whose key is not known to be harmless. A reference such as `"${NAME}"` is no secret and stays.

use std::borrow::Cow;

use super::{SourceKind, SourceText};

/// The text with a star for each byte that may belong to a secret; offsets stay the same.
pub(super) fn redact(source: &SourceText) -> Cow<'_, str> {
    let text = source.text.as_str();
    match source.kind {
        SourceKind::File => match redact_urls(text) {
            Some(redacted) => redact_file(&redacted).into_owned().into(),
            None => redact_file(text),
        },
        SourceKind::Environment | SourceKind::Set if !holds_secrets(&path_of(&source.name)) => {
            redact_urls(text).map_or_else(|| text.into(), Cow::from)
        }
        SourceKind::Environment | SourceKind::Set if is_reference(text.trim()) => text.into(),
        SourceKind::Environment | SourceKind::Set => mask(text).into(),
        // No diagnostic points into a file of keys.
        SourceKind::Included | SourceKind::Preset => text.into(),
    }
}

/// Masks credentials before the `@` of an address, options that look like passwords, and a port that is not a number;
/// references stay. `None` if there is nothing to mask.
fn redact_urls(text: &str) -> Option<String> {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let end = after.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'')).unwrap_or(after.len());
        let userinfo = after[..end].rfind('@').unwrap_or(0);
        shown.extend([before, "://"]);
        shown += &redact_except_references(&after[..userinfo]);
        shown += &redact_hosts_and_options(&after[userinfo..end]);
        rest = &after[end..];
    }
    shown += rest;
    (shown != text).then_some(shown)
}

/// Masks passwords in hosts (the `@` was forgotten) and in options.
fn redact_hosts_and_options(text: &str) -> String {
    let (address, options) = text.split_at(text.find('?').unwrap_or(text.len()));
    let (hosts, path) = address.split_at(address.find('/').unwrap_or(address.len()));
    let host = |host: &str| match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') && !port.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{name}:{}", redact_except_references(port))
        }
        _ => host.to_owned(),
    };
    let option = |option: &str| match option.split_once('=') {
        Some((name, value)) if is_of_password(name) => format!("{name}={}", redact_except_references(value)),
        _ => option.to_owned(),
    };
    let hosts: Vec<String> = hosts.split(',').map(host).collect();
    let options: Vec<String> = options.split('&').map(option).collect();
    format!("{}{path}{}", hosts.join(","), options.join("&"))
}

fn is_of_password(option: &str) -> bool {
    let option = option.to_lowercase();
    ["pass", "pwd", "secret", "token"].iter().any(|word| option.contains(word))
}

fn redact_except_references(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let length = after.find('}').map_or(after.len(), |end| end + 1);
        let reference = &rest[before.len()..before.len() + 2 + length];
        shown += &mask(before);
        shown += &if is_reference(reference) { reference.to_owned() } else { mask(reference) };
        rest = &after[length..];
    }
    shown + &mask(rest)
}

/// The levels of `environment TOLLGATE_DEVICE__SECRET` or `--set device.secret`. One underscore divides as well: one
/// instead of two is the likeliest mistake.
fn path_of(name: &str) -> Vec<String> {
    match name.strip_prefix("environment TOLLGATE_") {
        Some(variable) => levels(&variable.replace('_', ".")),
        None => levels(name.strip_prefix("--set ").unwrap_or(name)),
    }
}

fn redact_file(text: &str) -> Cow<'_, str> {
    let (mut shown, mut table) = (String::new(), Vec::new());
    let (mut at, mut copied) = (0, 0);
    while at < text.len() {
        let line = text[at..].split_inclusive('\n').next().unwrap_or_default();
        let bare = line.trim_start_matches([' ', '\t', '#', '\u{feff}']);
        let mut next = at + line.len();
        if let Some(head) = bare.strip_prefix('[') {
            table = levels(head.split(']').next().unwrap_or_default());
        } else if let Some(start) = secret_in(line, &table) {
            let start = at + start;
            next = if line.trim_start().starts_with('#') { next } else { end_of_value(text, start) };
            shown.push_str(&text[copied..start]);
            shown.push_str(&mask(&text[start..next]));
            copied = next;
        }
        at = next;
    }
    if copied == 0 { text.into() } else { (shown + &text[copied..]).into() }
}

/// Where the value of a secret begins in a line: behind the first word, or in an inline table behind any `=`.
fn secret_in(line: &str, table: &[String]) -> Option<usize> {
    let begin = line.find(|c: char| !is_in_front(c))?;
    let first = begin + line[begin..].find(|c: char| !is_of_key(c)).unwrap_or(line.len() - begin);
    let path = [table, &levels(&line[begin..first])].concat();
    let holds_a_table = line[first..].trim_start_matches([' ', '\t', '=']).starts_with('{');
    if !holds_a_table && first > begin {
        return holds_secrets(&path).then(|| value_of_secret(line, first)).flatten();
    }
    let inside = line.find('{').unwrap_or(first);
    line.match_indices('=').map(|(at, _)| at).filter(|at| *at > inside).find_map(|end| {
        let key = line[..end].rsplit(['{', ',']).next()?.trim_matches(is_in_front);
        let is_key = !key.is_empty() && key.chars().all(is_of_key);
        let is_secret = is_key && holds_secrets(&[&path[..], &levels(key)].concat());
        is_secret.then(|| value_of_secret(line, end)).flatten()
    })
}

/// Where the value behind this offset begins; `None` if it is a reference.
fn value_of_secret(line: &str, behind: usize) -> Option<usize> {
    let begin = behind + line[behind..].find(|c: char| !matches!(c, ' ' | '\t' | '=' | ':'))?;
    (!is_quoted_reference(line[begin..].trim())).then_some(begin)
}

fn is_in_front(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '#' | '\u{feff}')
}

/// The end of the line in which the value at `start` ends.
fn end_of_value(text: &str, start: usize) -> usize {
    let value = &text[start..];
    let long = ["\"\"\"", "'''"].iter().find(|quotes| value.starts_with(**quotes));
    let end = match long {
        Some(quotes) => value[3..].find(quotes).map_or(value.len(), |at| at + 6),
        None if value.starts_with('[') => end_of_list(value),
        None => 0,
    };
    let line = value[end..].find('\n').map_or(value.len(), |newline| end + newline + 1);
    start + line
}

/// Behind the first closing bracket outside quotes.
fn end_of_list(value: &str) -> usize {
    let mut quote = None;
    let end = value.char_indices().find(|&(_, letter)| match quote {
        Some(open) => {
            quote = quote.filter(|_| letter != open);
            false
        }
        None => {
            quote = Some(letter).filter(|letter| matches!(letter, '"' | '\''));
            letter == ']'
        }
    });
    end.map_or(value.len(), |(at, bracket)| at + bracket.len_utf8())
}

/// The levels of a dotted key, in lower case and without quotes.
fn levels(key: &str) -> Vec<String> {
    let levels = key.split('.').map(|level| level.trim_matches([' ', '\t', '"', '\'', '[']).to_lowercase());
    levels.filter(|level| !level.is_empty()).collect()
}

fn holds_secrets(path: &[String]) -> bool {
    let (Some(first), Some(last)) = (path.first(), path.last()) else { return false };
    let looks_like_it = last.contains("secret") || strsim::damerau_levenshtein(last, "secret") <= 2;
    // The last word of `TOLLGATE_STORE__ON_ERROR` counts as a level of its own.
    let is_of_store = ["url", "timeout", "on_error", "error", "prefix", "capacity", "snapshot"];
    looks_like_it
        || first == "device" && !matches!(last.as_str(), "ttl" | "cookie")
        || first == "store" && path.len() > 1 && !is_of_store.contains(&last.as_str())
}

fn is_of_key(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.' | '"' | '\'')
}

/// Whether a line's value is a quoted reference, with or without a comment behind it.
fn is_quoted_reference(value: &str) -> bool {
    let quoted = |quote: char| value.strip_prefix(quote)?.split_once(quote);
    let Some((inner, rest)) = quoted('"').or_else(|| quoted('\'')) else { return false };
    let rest = rest.trim_start_matches([' ', '\t', '}']);
    is_reference(inner) && (rest.is_empty() || rest.starts_with('#'))
}

/// `${NAME}` or `${file:PATH}`, also unfinished.
fn is_reference(text: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | ' ');
    text.strip_prefix("${").is_some_and(|rest| rest.strip_suffix('}').unwrap_or(rest).chars().all(plain))
}

fn mask(text: &str) -> String {
    let star = |letter: char| match letter {
        '\n' | '\r' => letter.to_string(),
        _ => "*".repeat(letter.len_utf8()),
    };
    text.chars().map(star).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(kind: SourceKind, name: &str, text: &str) -> String {
        redact(&SourceText { kind, name: name.into(), text: text.into() }).into_owned()
    }

    fn file(text: &str) -> String {
        shown(SourceKind::File, "config.toml", text)
    }

    #[test]
    fn a_secret_is_hidden_however_it_is_written() {
        for text in [
            "[device]\nsecret = \"hunter2\"\nttl = \"1d\"\n",
            "[device]\nsecret = 'hunter2' # hunter2\n",
            "[device]\nsecret = hunter2\n",
            "[device]\nsecret: hunter2\n",
            "[device]\nsecret hunter2\n",
            "[device]\nsecert = \"hunter2\"\n",
            "[device]\nkey = \"hunter2\"\n",
            "[ \"device\" ]\nkey = \"hunter2\"\n",
            "[device]\n\"secret\" = \"ab\"hunter2\"\n",
            "[device]\n#secret = \"hunter2\"\n",
            "[device]\nsecret = [\"a]\", \"hunter2\",\n  \"hunter2\"]\n",
            "[device]\nsecret = [\"hunter2\",\n  \"hunter2\"",
            "[device]\nsecret = \"\"\"\n# old\nhunter2\n\"\"\" hunter2\nttl = 1\n",
            "[device]\nsecret = '''hunter2\nhunter2'''",
            "[device]\nsecret = '''hunter2\nhunter2",
            "device.secret = \"hunter2\"\n",
            "device = { ttl = \"1d\", secret = \"hunter2\" }\n",
            "device = { key = \"hunter2\" }\n",
            "device = { ttl = \"1d\", secret = \"hunter2\", secret = \"${X}\" }\n",
            "device = { secret = \"${X}\", secret = \"hunter2\" }\n",
            "device = \"hunter2\"\n",
            "device \"hunter2\"\n",
            "secret = \"hunter2\"\n",
            "\u{feff}secret = \"hunter2\"\r\n",
            "[store]\nx = { a = 1, secret = \"hunter2\" }\n",
            "[device]\nsecret = \"\u{e4}hunter2\"\n",
            "[device]\nsecret = \"${hunter2+}\"\n",
        ] {
            let shown = file(text);
            assert!(!shown.contains("hunter2"), "{shown}");
            assert_eq!((shown.len(), shown.lines().count()), (text.len(), text.lines().count()), "{shown}");
        }
        assert_eq!(
            file("[device]\nsecret = \"\"\"\nx\n\"\"\"\nttl = 1\n"),
            "[device]\nsecret = ***\n*\n***\nttl = 1\n"
        );
    }

    #[test]
    fn a_password_in_an_address_is_hidden() {
        for text in [
            "[store]\nurl = \"redis://:hunter2@127.0.0.1\"\n",
            "[store]\nurl = \"postgres://a:hunter2@${HOST}/b?x=hunter@y\"\n",
            "url = 'mysql://a:hunter2@h' # mysql://a:hunter2@h\n",
            "[store]\nurl = redis://hunter2@h\n",
            "[store]\npasword = \"hunter2\"\n",
            "[store]\nurl = \"redis://gate:hunter2\"\n",
            "[store]\nurl = \"redis://:hunter2/3\"\n",
            "[store]\nurl = \"redis-cluster://one:7000,two:hunter2\"\n",
            "[store]\nurl = \"postgres://a@h/b?sslmode=disable&Password=hunter2\"\n",
        ] {
            let shown = file(text);
            assert!(!shown.contains("hunter2"), "{shown}");
            assert_eq!(shown.len(), text.len(), "{shown}");
        }
        let reference = "[store]\nurl = \"redis://:${PASSWORD}@127.0.0.1\"\n";
        assert_eq!(file(reference), reference.replace("://:$", "://*$"));
        let set = shown(SourceKind::Set, "--set store.url", "redis://:hunter2@h");
        assert_eq!(set, "redis://********@h");
    }

    #[test]
    fn everything_else_is_shown() {
        for text in [
            "listen = \"http://[::]:80\"\n[device]\nsecret = \"${KEYS}\"\nttl = \"1d\"\ncookie = \"c\"\n",
            "[device]\nsecret = '${file:/etc/keys.txt}' # where they are\n",
            "[device]\nsecret = \"${KEYS\"\n",
            "upstream = [\"http://app:81/a:b?c=d:e\", \"https://[::1]\", \"http://[::1]:81\"]\n",
            "url = \"redis-cluster://one:7000,two:${PORT}\"\n",
            "device = { secret = \"${KEYS}\" }\n",
            "[route.a]\nmatch = \"GET /?secret=1\"\n[limit.device]\nkey = \"user+device\"\n[limit.b]\nrate = \"1/s\"\n",
        ] {
            assert_eq!(file(text), text);
        }
    }

    #[test]
    fn what_stands_above_the_file_is_hidden_as_well() {
        for (kind, name) in [
            (SourceKind::Environment, "environment TOLLGATE_DEVICE__SECRET"),
            (SourceKind::Environment, "environment TOLLGATE_DEVICE_SECRET"),
            (SourceKind::Environment, "environment TOLLGATE_DEVICE__KEYS"),
            (SourceKind::Set, "--set device.secret"),
            (SourceKind::Set, "--set device.\"secret\""),
            (SourceKind::Set, "--set secret"),
        ] {
            assert_eq!(shown(kind, name, "hunter2"), "*******", "{name}");
            assert_eq!(shown(kind, name, "${NAME}"), "${NAME}", "{name}");
        }
        assert_eq!(shown(SourceKind::Environment, "environment TOLLGATE_DEVICE__TTL", "1y"), "1y");
        assert_eq!(shown(SourceKind::Set, "--set store.capacity", "x"), "x");
    }

    proptest! {
        #[test]
        fn any_text_keeps_its_places(text in "(secret|device|\"|'|=|\\[|\\]|\\{|\\}|#|,|\\.|\n|\u{e4}|x| )*") {
            let shown = file(&text);
            prop_assert_eq!(shown.len(), text.len());
            prop_assert!(shown.bytes().zip(text.bytes()).all(|(a, b)| a == b || a == b'*'));
        }
    }
}
