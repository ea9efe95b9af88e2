//! The parameters of a query, read as widely as applications read them.
//!
//! Names and values are decoded once; `&` and `;` both separate; PHP's habits with names are followed (`page[]`
//! is `page`, dots and blanks are underscores). This is for matching only and never for forwarding.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The parameters as (folded name, decoded value), in the order of the query.
pub fn pairs(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    parts(query).map(|(name, value)| (fold_name(&decode(name)), decode(value).into_owned()))
}

/// The whole names of the parameters, decoded.
pub(super) fn names(query: &str) -> impl Iterator<Item = Cow<'_, str>> {
    parts(query).map(|(name, _)| decode(name))
}

fn parts(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts = query.split(['&', ';']).filter(|part| !part.is_empty());
    parts.map(|part| part.split_once('=').unwrap_or((part, "")))
}

/// A parameter's name as PHP and case-insensitive frameworks know it.
#[must_use]
pub fn fold_name(name: &str) -> String {
    let name = name.trim_start().split('\0').next().unwrap_or_default();
    // A bracket that is never closed is a letter that PHP does not allow in a name, and makes an underscore of.
    let name = match name.split_once('[') {
        Some((array, index)) if index.contains(']') => Cow::Borrowed(array),
        Some((front, back)) => Cow::Owned(format!("{front}_{back}")),
        None => Cow::Borrowed(name),
    };
    name.chars().map(|c| if matches!(c, '.' | ' ') { '_' } else { c }).collect::<String>().to_lowercase()
}

/// Whether a parameter of this name could hold a password.
#[must_use]
pub fn sounds_like_a_password(name: &str) -> bool {
    holds(name, "pass") || holds(name, "pwd") || is_called_a_password(name)
}

/// The same for what is sent with every page: only a whole word between separators counts, or a long one within a word.
#[must_use]
pub fn is_called_a_password(name: &str) -> bool {
    let mut words = name.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    words.any(|word| {
        LONG_WORDS.iter().any(|known| holds(word, known))
            || in_camel_case(word).any(|word| is_one_of(word, &WORDS))
            || is_one_of(word, &WORDS)
    })
}

/// `userPass` is `user` and `Pass`.
fn in_camel_case(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let mut letters = rest.char_indices().skip(1);
        let before = |at: usize| rest[..at].ends_with(char::is_lowercase);
        let end = letters.find(|&(at, letter)| letter.is_uppercase() && before(at));
        let (part, after) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

/// Whether a text holds these letters, large or small.
fn holds(text: &str, letters: &str) -> bool {
    text.as_bytes().windows(letters.len()).any(|part| part.eq_ignore_ascii_case(letters.as_bytes()))
}

fn is_one_of(word: &str, known: &[&str]) -> bool {
    if word.is_ascii() {
        return known.iter().any(|known| word.eq_ignore_ascii_case(known));
    }
    let lower = word.to_lowercase();
    known.contains(&lower.as_str())
}

/// The name of a cookie, decoded.
pub(super) fn decoded(name: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(name) {
        Ok(name) => decode(name),
        Err(_) => String::from_utf8_lossy(name),
    }
}

/// Percent-decoding with `+` as a blank; what is broken stays as it is.
#[must_use]
pub fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let spaced = text.replace('+', " ");
    Cow::Owned(percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
}

/// What cannot be meant otherwise, wherever it stands in a word.
const LONG_WORDS: [&str; 6] = ["password", "passwd", "passwort", "passphrase", "kennwort", "passcode"];
/// What people call a password, or what stands for one.
const WORDS: [&str; 45] = [
    "pass",
    "passw",
    "passwrd",
    "userpass",
    "loginpass",
    "pwd",
    "pw",
    "psw",
    "pswd",
    "passkey",
    "pin",
    "pincode",
    "otp",
    "totp",
    "secret",
    "credential",
    "credentials",
    "geheimwort",
    "losungswort",
    "passord",
    "kodeord",
    "adgangskode",
    "l\u{f6}senord",
    "losenord",
    "salasana",
    "wachtwoord",
    "passe",
    "mdp",
    "motdepasse",
    "contrasena",
    "contrase\u{f1}a",
    "clave",
    "contrasenya",
    "senha",
    "parola",
    "heslo",
    "haslo",
    "has\u{142}o",
    "jelszo",
    "jelsz\u{f3}",
    "sifre",
    "\u{15f}ifre",
    "\u{43f}\u{430}\u{440}\u{43e}\u{43b}\u{44c}",
    "\u{5bc6}\u{7801}",
    "\u{5bc6}\u{78bc}",
];

#[cfg(test)]
mod tests {
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

    #[test]
    fn names_are_folded_as_php_folds_them() {
        let read = |query| pairs(query).collect::<Vec<_>>();
        assert_eq!(read("p%61ge=login"), [("page".into(), "login".into())]);
        assert_eq!(read("page[]=a&PAGE=b+c"), [("page".into(), "a".into()), ("page".into(), "b c".into())]);
        assert_eq!(
            read("page%00x=a&do[login=b"),
            [("page".into(), "a".into()), ("do_login".into(), "b".into())]
        );
        assert_eq!(read("a.b=1;c"), [("a_b".into(), "1".into()), ("c".into(), String::new())]);
    }

    #[test]
    fn broken_encoding_is_read_without_a_panic() {
        assert_eq!(pairs("%=%zz&=&%ff=1").count(), 3);
    }
}
