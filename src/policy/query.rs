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

/// The whole names of the parameters, decoded and in lower case.
pub fn names(query: &str) -> impl Iterator<Item = String> + '_ {
    parts(query).map(|(name, _)| decode(name).to_lowercase())
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

/// Whether a parameter of this name (in lower case) could hold a password.
#[must_use]
pub fn sounds_like_a_password(name: &str) -> bool {
    name.contains("pass") || name.contains("pwd")
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

#[cfg(test)]
mod tests {
    use super::*;

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
