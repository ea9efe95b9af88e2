//! What is special in the files of a gate; above all which lines may hold a secret, so that no diagnostic shows them.
//!
//! It looks at lines, not at the tree, because the line with the secret may be invalid TOML or have a misspelt key. It
//! rather hides too much: all of the tables that have a key for a secret, everything from a `secret` or `url` elsewhere to
//! the next table, every `eab`, every address with a password, and every credential in a header.

use std::ops::Range;

use tollgate_grammar::diagnostic::Dialect;
use tollgate_grammar::{SourceKind, SourceText};

use crate::defences::OWNERS;

/// The dialect of all texts that hold settings of a gate.
pub(super) static DIALECT: Dialect = Dialect {
    hides: may_stand_in,
    no_secret: || {
        let owners = OWNERS.key;
        format!(
            "write the value itself: secrets are `admin.token`, the tokens of `admin.tokens`, `{owners}.secret`, `store.secret`, `store.url` and `tls.acme.eab.key`"
        )
    },
    top_keys: &["listen", "upstream"],
};

/// Whether a line that this range touches may hold a secret.
fn may_stand_in(source: &SourceText, range: &Range<usize>) -> bool {
    match source.kind {
        SourceKind::File | SourceKind::Included => may_stand_in_lines(&source.text, range),
        SourceKind::Environment | SourceKind::Set => {
            let key = source.name.trim_start_matches("environment TOLLGATE_").trim_start_matches("--set ");
            begins_with_section(key)
                || is_of_secret(key)
                || names_binding(key)
                || key.contains("header:")
                || has_password(&source.text)
        }
        // No diagnostic points into a file of keys.
        SourceKind::Referenced | SourceKind::Preset => false,
    }
}

fn may_stand_in_lines(text: &str, range: &Range<usize>) -> bool {
    let start = range.start.min(text.len().saturating_sub(1));
    let (mut is_top, mut is_hidden, mut end) = (true, false, 0);
    for line in text.split_inclusive('\n') {
        let begin = end;
        end += line.len();
        if begin > range.end {
            break;
        }
        let bare = line.trim_start_matches(is_blank);
        match bare.strip_prefix('[') {
            Some(header) if begins_with_section(header) || names_binding(header) => is_hidden = true,
            // Not an item of a list on its own line.
            Some(header) if header.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                (is_top, is_hidden) = (false, false);
            }
            Some(_) => {}
            None => {
                let key = bare.trim_start_matches(['#', ' ']).split(['=', ':', ' ', '\t']).next();
                is_hidden |= key.is_some_and(is_of_secret) || is_top && begins_with_section(bare);
                is_hidden |= names_binding(bare);
            }
        }
        if end > start && (is_hidden || has_password(line) || has_credential(line)) {
            return true;
        }
    }
    false
}

/// Whether a header or a key is that of a section with secrets.
fn begins_with_section(key: &str) -> bool {
    let key =
        key.trim_start_matches(|c: char| is_blank(c) || matches!(c, '[' | '#' | '"' | '\'')).to_lowercase();
    SECTIONS.iter().any(|section| key.starts_with(section))
}

/// Whether a key may be one of these sections' keys in the wrong place.
fn is_of_secret(key: &str) -> bool {
    let key = key.trim_matches(['"', '\'']).to_lowercase();
    key.contains("secret") || key.ends_with("url")
}

/// Whether a line or a key may be one of `tls.acme.eab`, which may be within another table.
fn names_binding(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word.eq_ignore_ascii_case("eab"))
}

fn has_password(line: &str) -> bool {
    line.split("://").skip(1).any(|address| address.contains('@'))
}

/// Whether a quoted key or text is a header with its value, as in `[limit.NAME.rates]`.
fn has_credential(line: &str) -> bool {
    let is_key = line.trim_start_matches(is_blank).starts_with(['"', '\'']);
    let mut quoted = line.split(['"', '\'']).skip(1);
    is_key && quoted.clone().next().is_some_and(|key| key.contains('='))
        || quoted.any(|text| text.split_once("header:").is_some_and(|(_, pair)| pair.contains('=')))
}

fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\u{feff}')
}

const SECTIONS: [&str; 3] = ["store", OWNERS.key, "admin"];

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a diagnostic about this word of a file shows its line.
    fn is_shown(text: &str, word: &str) -> bool {
        let source = SourceText {
            kind: SourceKind::File,
            name: "config.toml".into(),
            text: text.into(),
            dialect: &DIALECT,
        };
        text.match_indices(word).any(|(at, _)| !may_stand_in(&source, &(at..at + word.len())))
    }

    #[test]
    fn a_secret_is_hidden_however_it_is_written() {
        for text in [
            "[device]\nsecret = \"hunter2\"\nttl = \"1d\"\n",
            "[device]\nsecret = hunter2\n",
            "[device]\nsecret: hunter2\n",
            "[device]\nsecret hunter2",
            "[device]\nkey = \"hunter2\"\n",
            "[ \"device\" ]\nkey = \"hunter2\"\n",
            "[limit.a]\n[[Store]]\nkey = \"hunter2\"\n",
            "[device]\n\"secret\" = \"ab\"hunter2\"\n",
            "[device]\n#secret = \"hunter2\"\n",
            "[devcie]\n# secret = \"hunter2\"\n",
            "[device]\nsecret = [\"a]\",\n[\"b\"],\n  \"hunter2\"]\n",
            "[device]\nsecret = \"\"\"\n# old\nhunter2\n\"\"\" hunter2\nttl = 1\n",
            "[device]\nsecret = '''hunter2\nhunter2",
            "device.secret = \"hunter2\"\n",
            "device = { ttl = \"1d\", secret = \"hunter2\" }\n",
            "device \"hunter2\"\n",
            "secret = \"hunter2\"\n",
            "\u{feff}secret = \"hunter2\"\r\n",
            "[store]\nurl = \"redis://gate:hunter2\"\n",
            "[admin]\ntoken = \"hunter2\"\n",
            "[log]\nurl = \"redis://:hunter2/3\"\n",
            "[log]\nhome = \"redis://:hunter2@127.0.0.1/3\"\n",
            "[tls.acme.eab]\nkey_id = \"a\"\nkey = \"hunter2\"\n",
            "[tls.acme]\neab = { key_id = \"a\",\n key = \"hunter2\" }\n",
            "[tls]\nacme = { domains = \"a\", eab = { key = \"hunter2\" } }\n",
            "tls.acme.eab.key = \"hunter2\"\n",
            "[limit.a.rates]\n\"header:X-Api-Key=hunter2\" = \"off\"\n",
            "[limit.a.rates]\n 'haeder:X-Api-Key=hunter2' = \"off\"\n",
            "limit.a.rates.\"header:X-Api-Key=hunter2\" = \"off\"\n",
            "rates = { office = \"1/s\", \"header:X-Api-Key=hunter2\" = \"off\" }\n",
        ] {
            assert!(!is_shown(text, "hunter2"), "{text}");
        }
    }

    #[test]
    fn everything_else_is_shown() {
        for (text, word) in [
            ("listen = \"http://[::]:80\"\n[device]\nsecret = \"hunter2\"\n", ":80"),
            ("[device]\nsecret = \"hunter2\"\n[limit.device]\nkey = \"user+device\"\n", "user+device"),
            ("[route.a]\nmatch = \"GET /?secret=1\"\n", "match"),
            ("[limit.a]\nkey = \"header:X-Api-Key\"\n", "X-Api-Key"),
            ("[networks]\nstore-rooms = [\"ofice\"]\n", "ofice"),
            ("upstream = [\"http://app:81\", \"https://[::1]\"]\n", "app"),
        ] {
            assert!(is_shown(text, word), "{text}");
        }
    }

    #[test]
    fn what_stands_above_the_file_is_hidden_as_well() {
        let is_shown = |kind, name: &str, text: &str| {
            let source = SourceText { kind, name: name.into(), text: text.into(), dialect: &DIALECT };
            !may_stand_in(&source, &(0..text.len()))
        };
        for name in [
            "DEVICE__SECRET",
            "DEVICE_SECRET",
            "STORE__URL",
            "STORE_URL",
            "ADMIN__TOKEN",
            "SECRET",
            "TLS__ACME__EAB__KEY",
        ] {
            assert!(
                !is_shown(SourceKind::Environment, &format!("environment TOLLGATE_{name}"), "x"),
                "{name}"
            );
        }
        for key in [
            "tls.acme.eab.key",
            "device.secret",
            "device.\"secret\"",
            "\"store\".url",
            "secret",
            "url",
            "log.url",
        ] {
            assert!(!is_shown(SourceKind::Set, &format!("--set {key}"), "x"), "{key}");
        }
        assert!(!is_shown(SourceKind::Set, "--set upstream", "http://me:hunter2@h"));
        assert!(!is_shown(SourceKind::Set, "--set limit.a.rates.\"header:X-Api-Key", "hunter2\"=1/s"));
        assert!(is_shown(SourceKind::Set, "--set upstream", "http://h"));
        assert!(is_shown(SourceKind::Environment, "environment TOLLGATE_LIMIT__DEVICE__RATE", "x"));
    }
}
