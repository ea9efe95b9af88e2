//! The small grammars of the file: a value that is written out means the same.

#![no_main]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use libfuzzer_sys::fuzz_target;
use tollgate::config::values::{
    Duration, LimitKey, ListenUrl, Mistake, Prefix, RateValue, Size, UpstreamUrl,
};

fuzz_target!(|text: &str| {
    round_trip::<RateValue>(text);
    round_trip::<Duration>(text);
    round_trip::<Size>(text);
    parse::<LimitKey>(text);
    parse::<Prefix>(text);
    parse::<ListenUrl>(text);
    parse::<UpstreamUrl>(text);
});

fn round_trip<T: FromStr<Err = Mistake> + Display + Debug + PartialEq>(text: &str) {
    let Some(value) = parse::<T>(text) else { return };
    assert_eq!(value.to_string().parse(), Ok(value), "{text:?}");
}

/// The value; a mistake points into the text.
fn parse<T: FromStr<Err = Mistake>>(text: &str) -> Option<T> {
    let mistake = match text.parse() {
        Ok(value) => return Some(value),
        Err(mistake) => mistake,
    };
    assert!(!mistake.message.is_empty());
    if let Some(part) = mistake.part {
        assert!(text.get(part.clone()).is_some(), "{part:?} is no part of {text:?}");
    }
    None
}
