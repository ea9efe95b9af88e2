//! Whether the name of a parameter, a field or a cookie is that of a password.
//!
//! It knows words and no requests. It scans a name once for all words: a query may be one name of eight kilobytes.

/// Whether a parameter with this name could hold a password.
#[must_use]
pub(super) fn sounds_like_a_password(name: &str) -> bool {
    holds(name.as_bytes(), |last| last == *b"pass" || last[1..] == *b"pwd", &["kennwort"]) || has_a_word(name)
}

/// Whether a cookie with this name could hold a password. Cookies are sent with every page, so only a whole word
/// between separators counts, or a long word within a word.
#[must_use]
pub(super) fn is_called_a_password(name: &str) -> bool {
    holds(name.as_bytes(), |_| false, &LONG_WORDS) || has_a_word(name)
}

/// Whether any four bytes, ignoring case, are enough or complete one of these words.
fn holds(name: &[u8], is_enough: impl Fn([u8; 4]) -> bool, words: &[&str]) -> bool {
    let mut last = 0_u32;
    name.iter().enumerate().any(|(at, byte)| {
        last = last << 8 | u32::from(byte.to_ascii_lowercase());
        let four = last.to_be_bytes();
        let ends = |word: &&str| {
            let start = (at + 1).checked_sub(word.len());
            start.is_some_and(|start| name[start..=at].eq_ignore_ascii_case(word.as_bytes()))
        };
        is_enough(four) || (ends_a_long_word(four) && words.iter().any(ends))
    })
}

/// Whether one of the words between separators, or between a lower-case and an upper-case letter (`userPass`), is a
/// password word.
fn has_a_word(name: &str) -> bool {
    if !name.is_ascii() {
        return has_a_word_in_unicode(name);
    }
    let name = name.as_bytes();
    let (mut word, mut part, mut before) = (0, 0, b' ');
    (0..=name.len()).any(|at| {
        let byte = name.get(at).copied().unwrap_or(b' ');
        let is_end = !byte.is_ascii_alphabetic();
        let mut is_found = false;
        if is_end || (before.is_ascii_lowercase() && byte.is_ascii_uppercase()) {
            is_found = is_word(&name[part..at]) || (is_end && word < part && is_word(&name[word..at]));
            part = at + usize::from(is_end);
            word = if is_end { part } else { word };
        }
        before = byte;
        is_found
    })
}

fn has_a_word_in_unicode(name: &str) -> bool {
    let (mut word, mut part, mut after_small) = (Lower::default(), Lower::default(), false);
    name.chars().chain([' ']).any(|letter| {
        let is_end = !letter.is_alphabetic();
        let mut is_found = false;
        if is_end || (after_small && letter.is_uppercase()) {
            is_found = part.is_word() || (is_end && word.is_word());
            part = Lower::default();
        }
        if is_end {
            word = Lower::default();
        } else {
            word.push(letter);
            part.push(letter);
        }
        after_small = letter.is_lowercase();
        is_found
    })
}

/// A word in lower case, as far as it could be one of the [known words](is_known).
#[derive(Default)]
struct Lower {
    bytes: [u8; MAX_PASSWORD_WORD],
    length: usize,
}

impl Lower {
    fn push(&mut self, letter: char) {
        if self.length > MAX_PASSWORD_WORD {
            return;
        }
        for lower in letter.to_lowercase() {
            let end = self.length + lower.len_utf8();
            match self.bytes.get_mut(self.length..end) {
                Some(target) => drop(lower.encode_utf8(target)),
                None => {
                    self.length = MAX_PASSWORD_WORD + 1;
                    return;
                }
            }
            self.length = end;
        }
    }

    fn is_word(&self) -> bool {
        self.bytes.get(..self.length).is_some_and(is_known)
    }
}

fn is_word(word: &[u8]) -> bool {
    let mut lower = [0; MAX_PASSWORD_WORD];
    let Some(lower) = lower.get_mut(..word.len()) else { return false };
    lower.copy_from_slice(word);
    lower.make_ascii_lowercase();
    is_known(lower)
}

/// Whether a word means a password, in several languages; by first letters, since most words are none of these.
#[rustfmt::skip]
fn is_known(word: &[u8]) -> bool {
    match word {
        [b'p', rest @ ..] => matches!(
            rest,
            b"ass" | b"assw" | b"asswrd" | b"wd" | b"w" | b"sw" | b"swd" | b"asskey" | b"in" | b"incode" | b"assord"
                | b"asse" | b"arola"
        ),
        [b's', rest @ ..] => matches!(rest, b"ecret" | b"alasana" | b"enha" | b"ifre"),
        [b'c', rest @ ..] => matches!(
            rest,
            b"redential" | b"redentials" | b"ontrasena" | b"ontrase\xc3\xb1a" | b"ontrasenya" | b"lave"
        ),
        [b'l', rest @ ..] => {
            matches!(rest, b"oginpass" | b"osungswort" | b"\xc3\xb6senord" | b"osenord")
        }
        [b'h', rest @ ..] => matches!(rest, b"eslo" | b"aslo" | b"as\xc5\x82o"),
        [b'j', rest @ ..] => matches!(rest, b"elszo" | b"elsz\xc3\xb3"),
        [b'm', rest @ ..] => matches!(rest, b"dp" | b"otdepasse"),
        _ => matches!(
            word,
            b"userpass" | b"otp" | b"totp" | b"geheimwort" | b"kodeord" | b"adgangskode" | b"wachtwoord"
                | b"\xc5\x9fifre" | b"\xd0\xbf\xd0\xb0\xd1\x80\xd0\xbe\xd0\xbb\xd1\x8c"
                | b"\xe5\xaf\x86\xe7\xa0\x81" | b"\xe5\xaf\x86\xe7\xa2\xbc"
        ),
    }
}

/// Words that mean a password at any position within a word.
const LONG_WORDS: [&str; 6] = ["password", "passwd", "passwort", "passphrase", "kennwort", "passcode"];

fn ends_a_long_word(last: [u8; 4]) -> bool {
    matches!(&last, b"word" | b"sswd" | b"wort" | b"rase" | b"code")
}

/// Bytes of the longest known word.
const MAX_PASSWORD_WORD: usize = 12;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn whole_words_and_long_ones_are_called_a_password() {
        for name in [
            "pass",
            "user_pass",
            "user[pw]",
            "j_password",
            "txtPass",
            "PASSWD",
            "userpassword2",
            "pwd-1",
            "login.pin",
            "mot_de_passe",
            "contrase\u{f1}a",
            "Kennwort",
            "pass2",
            "ctl00$Main$Pwd",
            "HAS\u{141}O",
        ] {
            assert!(is_called_a_password(name) && sounds_like_a_password(name), "{name}");
        }
        for name in [
            "passport.sid",
            "compass",
            "bypass_cache",
            "trespass",
            "spinner",
            "PHPSESSID",
            "csrftoken",
            "opinion",
            "secretary",
            "wp-settings-1",
            "pmaUser-1",
            "login",
            "",
            "_",
            "spwd",
        ] {
            assert!(!is_called_a_password(name), "{name}");
        }
        for name in ["passport", "spwd", "PASSAGE"] {
            assert!(sounds_like_a_password(name), "{name}");
        }
    }

    /// Checks word by word, as a reference.
    fn is_called_slowly(name: &str) -> bool {
        let words = name.split(|letter: char| !letter.is_alphabetic());
        words.flat_map(|word| [vec![word], in_camel_case(word)].concat()).any(|word| {
            let lower = word.to_lowercase();
            is_known(lower.as_bytes())
        })
    }

    fn in_camel_case(word: &str) -> Vec<&str> {
        let letters: Vec<(usize, char)> = word.char_indices().collect();
        let turns = letters.windows(2).filter(|two| two[0].1.is_lowercase() && two[1].1.is_uppercase());
        let ends: Vec<usize> = turns.map(|two| two[1].0).chain([word.len()]).collect();
        let starts = [0].into_iter().chain(ends.clone());
        starts.zip(ends).map(|(start, end)| &word[start..end]).collect()
    }

    proptest! {
        #[test]
        fn one_look_finds_what_word_by_word_is_found(
            pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..6),
        ) {
            let name = pieces.concat();
            let lower = name.to_lowercase();
            let holds = |words: &[&str]| words.iter().any(|word| lower.contains(word));
            let is_called = holds(&LONG_WORDS) || is_called_slowly(&name);
            prop_assert_eq!(is_called_a_password(&name), is_called, "{}", &name);
            prop_assert_eq!(sounds_like_a_password(&name), is_called || holds(&["pass", "pwd"]), "{}", &name);
        }
    }

    const PIECES: [&str; 30] = [
        "pass",
        "Pass",
        "PASS",
        "word",
        "wd",
        "wort",
        "phrase",
        "code",
        "kenn",
        "Kenn",
        "pw",
        "Pw",
        "d",
        "pin",
        "PIN",
        "otp",
        "secret",
        "has\u{142}o",
        "HAS\u{141}",
        "O",
        "o",
        "_",
        "-",
        ".",
        "1",
        "\u{e4}",
        "\u{c4}",
        "\u{5bc6}\u{7801}",
        "\u{41f}\u{410}\u{420}\u{41e}\u{41b}\u{42c}",
        "a",
    ];
}
