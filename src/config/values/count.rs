//! `"count:methodName"`, `"count:[]"` or `"count:{login}"`: which parts of a request are counted.

use std::str::FromStr;

use tollgate_grammar::document::TomlValue;
use tollgate_grammar::kind::{Kind, Whole};
use tollgate_grammar::schema::Schema;
use tollgate_grammar::table::string;
use tollgate_grammar::{Findings, Located, Mistake, Syntax};

use crate::policy::Cost;
use crate::policy::count::Count;

/// What a request is counted by, read from text.
#[derive(Debug, PartialEq, Eq)]
pub struct CountValue(pub Count);

impl FromStr for CountValue {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let Some(counted) = text.strip_prefix("count:") else {
            return Err(Mistake::new(format!("`{text}` is not a cost"), HINT));
        };
        // Each document chooses its own prefix for a namespace.
        let local = counted.rsplit(':').next().unwrap_or_default();
        let letter = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'-');
        match counted {
            "[]" => Ok(Self(Count::Items)),
            "" => Err(Mistake::new("nothing to count", HINT)),
            braced if braced.starts_with('{') => fields(braced).map(Self),
            name if name.len() <= MAX_COUNT_LEN && !local.is_empty() && name.bytes().all(letter) => {
                Ok(Self(Count::Element(name.to_owned())))
            }
            name => Err(Mistake::new(format!("`{name}` is not the name of an element"), LETTERS)),
        }
    }
}

impl Syntax for CountValue {
    fn pattern() -> Option<String> {
        let names = "[_A-Za-z][_0-9A-Za-z]*([ ,]+[_A-Za-z][_0-9A-Za-z]*)*";
        Some(format!("^count:(\\[\\]|\\{{[ ,]*{names}[ ,]*\\}}|[A-Za-z0-9_.:-]+)$"))
    }
}

/// What an attempt costs: a number of tokens, or what is counted in it.
pub enum CountKind {}

type Tokens = Whole<u32, 1, 4_294_967_295>;

impl Kind for CountKind {
    type Raw = TomlValue;
    type Value = Cost;

    fn schema() -> Schema {
        Schema::any_of(vec![Tokens::schema(), CountValue::schema()])
    }

    fn check(given: &Located<TomlValue>, f: &mut Findings) -> Option<Cost> {
        match &given.value {
            TomlValue::Integer(tokens) => Tokens::check(&given.with(*tokens), f).map(Cost::Fixed),
            TomlValue::String(_) => {
                CountValue::read(&string(given, f)?, f).map(|CountValue(count)| Cost::Counted(count))
            }
            other => {
                let message = format!("{} where an integer belongs", other.kind());
                f.error(&given.spot, message, "write a number of tokens");
                None
            }
        }
    }
}

/// Names of GraphQL fields (specification of October 2021, section 2.1.9), with blanks or commas between.
fn fields(braced: &str) -> Result<Count, Mistake> {
    let is_name = |name: &&str| {
        let is_letter = |letter: u8| letter == b'_' || letter.is_ascii_alphanumeric();
        name.bytes().all(is_letter) && !name.starts_with(|first: char| first.is_ascii_digit())
    };
    let inner = braced.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or("}");
    let names: Vec<&str> = inner.split([' ', ',']).filter(|name| !name.is_empty()).collect();
    if braced.len() > MAX_COUNT_LEN || names.is_empty() || !names.iter().all(is_name) {
        return Err(Mistake::new(format!("`{braced}` names no fields of GraphQL"), FIELDS));
    }
    Ok(Count::Fields(names.into_iter().map(str::to_owned).collect()))
}

const MAX_COUNT_LEN: usize = 128;
const HINT: &str = "write a number of tokens, \"count:methodName\", \"count:[]\" or \"count:{login}\"";
const FIELDS: &str = "as in \"count:{login}\" or \"count:{login, verifyCode}\"";
const LETTERS: &str = "letters, digits, `_`, `.`, `-`, and `:` after a prefix";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_and_items_and_fields_can_be_counted() {
        assert_eq!("count:[]".parse(), Ok(CountValue(Count::Items)));
        for (text, names) in [("{login}", &["login"][..]), ("{ _a1,b, c }", &["_a1", "b", "c"])] {
            let names = names.iter().map(|&name| name.to_owned()).collect();
            assert_eq!(format!("count:{text}").parse(), Ok(CountValue(Count::Fields(names))));
        }
        for name in ["methodName", "soap:Login", "a.b-c_1", "x"] {
            assert_eq!(format!("count:{name}").parse(), Ok(CountValue(Count::Element(name.into()))));
        }
    }

    #[test]
    fn what_cannot_be_counted_is_refused() {
        let long = format!("count:{}", "x".repeat(129));
        for text in [
            "",
            "count",
            "count:",
            "count: ",
            "count:a b",
            "count:soap:",
            "count:[",
            "count:{}",
            "count:{login",
            "count:{1a}",
            "count:{a-b}",
            "count:{{a}}",
            "count:<a>",
            "Count:a",
            "count:\u{e4}",
            &long,
        ] {
            assert!(text.parse::<CountValue>().is_err(), "{text:?}");
        }
    }
}
