//! The parameters of a query, read as widely as applications read them.
//!
//! Names and values are decoded once; `&` and `;` both separate; PHP's habits with names are followed (`page[]`
//! is `page`, dots and blanks are underscores). This is for matching only and never for forwarding.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The parameters as (folded name, decoded value), in the order of the query.
pub fn pairs(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    query.split(['&', ';']).filter(|part| !part.is_empty()).map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (fold_name(&decode(name)), decode(value).into_owned())
    })
}

/// A parameter's name as PHP and case-insensitive frameworks know it.
#[must_use]
pub fn fold_name(name: &str) -> String {
    let name = name.trim_start();
    let name = name.split('[').next().unwrap_or_default();
    name.chars().map(|c| if matches!(c, '.' | ' ') { '_' } else { c }).collect::<String>().to_lowercase()
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
        assert_eq!(read("a.b=1;c"), [("a_b".into(), "1".into()), ("c".into(), String::new())]);
    }

    #[test]
    fn broken_encoding_is_read_without_a_panic() {
        assert_eq!(pairs("%=%zz&=&%ff=1").count(), 3);
    }
}
