//! `"form:username"`, `"json:/user/email"`, `"query:NAME"`, `"header:NAME"`, `"basic"`, `"ntlm"`,
//! `"negotiate"`: the part of a request that
//! holds a value.

use std::str::FromStr;

use tollgate_grammar::diagnostic::suggest;
use tollgate_grammar::{Mistake, Syntax};

use crate::policy::field::Field;

/// A field of the policy, read from text.
#[derive(Debug, PartialEq, Eq)]
pub struct FieldValue(pub Field);

impl FromStr for FieldValue {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let (kind, name) = match text.split_once(':') {
            Some((kind, name)) => (kind, Some(name)),
            None => (text, None),
        };
        if let Some(kind) = KINDS.iter().find(|known| known.prefix == kind) {
            return kind.read(text, name.unwrap_or_default()).map(Self);
        }
        let mistake = Mistake::new(format!("`{text}` is not a field"), suggestion(kind, name));
        Err(Mistake { part: Some(0..kind.len()), ..mistake })
    }
}

impl Syntax for FieldValue {
    fn pattern() -> Option<String> {
        Some("^(form:.+|json:.*|query:.+|header:.+|basic|ntlm|negotiate)$".to_owned())
    }
}

/// A word before the colon, and the grammar of what follows the colon.
struct FieldPrefix {
    prefix: &'static str,
    noun: &'static str,
    example: &'static str,
    read: fn(&str) -> Option<Field>,
    /// The field, where nothing follows.
    whole: Option<Field>,
}

impl FieldPrefix {
    const fn whole(prefix: &'static str, noun: &'static str, field: Field) -> Self {
        Self { prefix, noun, example: "", read: |_| None, whole: Some(field) }
    }

    fn read(&self, text: &str, name: &str) -> Result<Field, Mistake> {
        if let Some(field) = &self.whole {
            let hint = format!("it has {}; write \"{}\"", self.noun, self.prefix);
            return (text == self.prefix)
                .then(|| field.clone())
                .ok_or_else(|| Mistake::new(format!("`{}` has no parts", self.prefix), hint));
        }
        let is_sound = name.len() <= MAX_NAME_LEN && !name.contains(char::is_control);
        let field = if is_sound { (self.read)(name) } else { None };
        field.ok_or_else(|| {
            let message = match name {
                "" => format!("nothing follows `{}:`", self.prefix),
                name => format!("`{name}` is not {}", self.noun),
            };
            Mistake::new(message, self.example)
        })
    }
}

/// A name without a prefix is mostly a form field.
fn suggestion(kind: &str, name: Option<&str>) -> String {
    let words = KINDS.map(|kind| kind.prefix);
    match name {
        None if suggest(kind, words).starts_with("known") && Field::form(kind).is_some() => {
            format!("write \"form:{kind}\" for a field of a form")
        }
        _ => suggest(kind, words),
    }
}

/// Bytes of a name.
const MAX_NAME_LEN: usize = 256;
const KINDS: [FieldPrefix; 7] = [
    FieldPrefix {
        prefix: "form",
        noun: "the name of a field",
        example: "as in \"form:username\"",
        read: Field::form,
        whole: None,
    },
    FieldPrefix {
        prefix: "json",
        noun: "a JSON pointer",
        example: "as in \"json:/user/email\" (RFC 6901)",
        read: Field::json,
        whole: None,
    },
    FieldPrefix {
        prefix: "query",
        noun: "the name of a parameter",
        example: "as in \"query:username\"",
        read: Field::query,
        whole: None,
    },
    FieldPrefix {
        prefix: "header",
        noun: "the name of a header",
        example: "as in \"header:X-User\"",
        read: |name| name.parse().ok().map(Field::Header),
        whole: None,
    },
    FieldPrefix::whole("basic", "one name and one password", Field::Basic),
    FieldPrefix::whole("ntlm", "one name", Field::Ntlm),
    FieldPrefix::whole("negotiate", "one name", Field::Negotiate),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_kind_of_field_is_read() {
        for (text, field) in [
            ("form:log", Field::Form("log".into())),
            ("form:user[email]", Field::Form("user[email]".into())),
            ("form:ctl00$Main:User", Field::Form("ctl00$Main:User".into())),
            ("json:/user/e~1m~0", Field::Json("/user/e~1m~0".into())),
            ("query:user", Field::Query("user".into())),
            ("header:X-User", Field::Header(http::HeaderName::from_static("x-user"))),
            ("basic", Field::Basic),
            ("ntlm", Field::Ntlm),
            ("negotiate", Field::Negotiate),
        ] {
            assert_eq!(text.parse(), Ok(FieldValue(field)), "{text}");
        }
    }

    #[test]
    fn what_is_no_field_is_refused() {
        let long = format!("form:{}", "x".repeat(257));
        for text in [
            "",
            ":",
            "form",
            "form:",
            "form:[]",
            "form:_",
            "form:a\nb",
            "json:",
            "json:user",
            "json:/~",
            "json:/a~2",
            "header:",
            "header:a b",
            "query:",
            "basic:",
            "basic:user",
            "ntlm:",
            "Form:a",
            "cookie:a",
            "username",
            &long,
        ] {
            assert!(text.parse::<FieldValue>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_hint_says_what_was_meant() {
        let hint = |text: &str| text.parse::<FieldValue>().unwrap_err().hint;
        assert_eq!(hint("frm:log"), "did you mean `form`?");
        assert_eq!(hint("username"), "write \"form:username\" for a field of a form");
        assert_eq!(
            hint("cookie:a"),
            "known: `form`, `json`, `query`, `header`, `basic`, `ntlm`, `negotiate`"
        );
        assert_eq!(hint("json:user"), "as in \"json:/user/email\" (RFC 6901)");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = text.parse::<FieldValue>();
        }
    }
}
