//! Whether the name of a parameter, a field or a cookie is that of a password.
//!
//! Only a whole word counts, and only the one that says what the value is: `user_pass` and `txtPassword1` are passwords,
//! `compass`, `passwordChanged` and `hide_password_tip` are not. It knows words and no requests.

/// Whether a parameter, a field or a cookie with this name holds a password.
#[must_use]
pub(super) fn is_called_a_password(name: &str) -> bool {
    for mut word in name.rsplit(|letter: char| !letter.is_alphabetic()).filter(|word| !word.is_empty()) {
        loop {
            if is_word(word) {
                return true;
            }
            let last = last_part(word);
            if last.len() < word.len() && is_word(last) {
                return true;
            }
            if !is_addition(last) {
                return false;
            }
            word = &word[..word.len() - last.len()];
            if word.is_empty() {
                break;
            }
        }
    }
    false
}

/// The last part of `userPass`: what begins with the last upper-case letter behind a lower-case one.
fn last_part(word: &str) -> &str {
    let mut next: Option<(usize, char)> = None;
    for (at, letter) in word.char_indices().rev() {
        if let Some((start, _)) = next.filter(|(_, next)| letter.is_lowercase() && next.is_uppercase()) {
            return &word[start..];
        }
        next = Some((at, letter));
    }
    word
}

/// Whether a word is known, or ends in a long word.
fn is_word(word: &str) -> bool {
    let bytes = word.as_bytes();
    let ends_in = |long: &&str| {
        let start = bytes.len().checked_sub(long.len());
        start.is_some_and(|start| bytes[start..].eq_ignore_ascii_case(long.as_bytes()))
    };
    lower(word).is_some_and(|(bytes, length)| is_known(&bytes[..length])) || LONG_WORDS.iter().any(ends_in)
}

/// Whether a word behind that for a password leaves it one: `password_confirmation`, `pass_word`, `pwdTextBox`.
fn is_addition(word: &str) -> bool {
    lower(word).is_some_and(|(bytes, length)| is_known_addition(&bytes[..length]))
}

/// A short word in lower case.
fn lower(word: &str) -> Option<([u8; MAX_WORD], usize)> {
    let (mut bytes, mut length) = ([0; MAX_WORD], 0);
    if word.is_ascii() {
        let lower = bytes.get_mut(..word.len())?;
        lower.copy_from_slice(word.as_bytes());
        lower.make_ascii_lowercase();
        return Some((bytes, word.len()));
    }
    for letter in word.chars().flat_map(char::to_lowercase) {
        let end = length + letter.len_utf8();
        letter.encode_utf8(bytes.get_mut(length..end)?);
        length = end;
    }
    Some((bytes, length))
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

/// Words of forms, of repetitions and of what is made of a password.
#[rustfmt::skip]
fn is_known_addition(word: &[u8]) -> bool {
    matches!(
        word,
        b"word" | b"wd" | b"field" | b"input" | b"text" | b"txt" | b"box" | b"textbox" | b"edit"
            | b"control" | b"value" | b"val" | b"new" | b"old" | b"current" | b"confirm"
            | b"confirmation" | b"confirmed" | b"again" | b"repeat" | b"repeated" | b"retype"
            | b"verify" | b"check" | b"hash" | b"md" | b"sha" | b"enc" | b"encrypted" | b"crypt"
            | b"raw" | b"plain" | b"user" | b"login"
    )
}

/// Words that mean a password at the end of a word.
const LONG_WORDS: [&str; 6] = ["password", "passwd", "passwort", "passphrase", "kennwort", "passcode"];

/// Bytes of the longest word that is looked at.
const MAX_WORD: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_word_that_says_what_the_value_is_makes_a_password() {
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
            "CONTRASE\u{d1}A",
            "Kennwort",
            "pass2",
            "ctl00$Main$Pwd",
            "HAS\u{141}O",
            "password_confirmation",
            "pass-word",
            "passWord",
            "pwdTextBox",
            "users[0][password][]",
            "pass_md5",
            "loginPasswordField",
        ] {
            assert!(is_called_a_password(name), "{name}");
        }
    }

    #[test]
    fn what_only_sounds_like_a_password_is_none() {
        for name in [
            "compass",
            "passive",
            "bypass",
            "bypass_cache",
            "passwordChanged",
            "password_changed",
            "hide_password_tip",
            "forgot_password_link",
            "passport.sid",
            "PASSAGE",
            "trespass",
            "spwd",
            "spinner",
            "PHPSESSID",
            "csrftoken",
            "opinion",
            "secretary",
            "wp-settings-1",
            "pmaUser-1",
            "login",
            "user",
            "",
            "_",
            "1",
        ] {
            assert!(!is_called_a_password(name), "{name}");
        }
    }

    #[test]
    fn a_name_of_many_words_is_looked_at_once() {
        let long = "new_".repeat(2000);
        assert!(!is_called_a_password(&long));
        assert!(is_called_a_password(&format!("pass_{long}")));
        assert!(!is_called_a_password(&"aB".repeat(4000)));
    }
}
