//! Compares the parser with a second one, a state machine over letters that was written from the grammar.

use proptest::prelude::*;

use super::*;

/// Names and values of each element, with lower-case names and unquoted values; `None` if the line is malformed.
fn oracle(line: &str) -> Option<Vec<Vec<(String, String)>>> {
    #[derive(PartialEq)]
    enum State {
        BeforePair,
        Name,
        ValueBegins,
        Token,
        Quoted,
        Escaped,
        AfterValue,
    }
    let is_token = |c: char| !c.is_ascii_control() && c.is_ascii() && !" \t\"(),/:;<=>?@[\\]{}".contains(c);
    let (mut state, mut elements, mut pairs) = (State::BeforePair, Vec::new(), Vec::new());
    let (mut name, mut value) = (String::new(), String::new());
    // A comma at the end closes the last element.
    for letter in line.chars().chain([',']) {
        state = match (state, letter) {
            (State::BeforePair, ' ' | '\t') => State::BeforePair,
            (State::AfterValue, ' ' | '\t') => State::AfterValue,
            (State::Token, ' ' | '\t') => State::AfterValue,
            (State::BeforePair | State::AfterValue | State::Token, ';' | ',') => {
                if !name.is_empty() {
                    pairs.push((std::mem::take(&mut name).to_lowercase(), std::mem::take(&mut value)));
                }
                if letter == ',' {
                    elements.push(std::mem::take(&mut pairs));
                }
                State::BeforePair
            }
            (State::BeforePair | State::Name, c) if is_token(c) => {
                name.push(c);
                State::Name
            }
            (State::Name, '=') => State::ValueBegins,
            (State::ValueBegins, '"') => State::Quoted,
            (State::ValueBegins | State::Token, c) if is_token(c) => {
                value.push(c);
                State::Token
            }
            (State::Quoted, '"') => State::AfterValue,
            (State::Quoted, '\\') => State::Escaped,
            (State::Quoted | State::Escaped, c) => {
                value.push(c);
                State::Quoted
            }
            _ => return None,
        };
    }
    let known = ["for", "by", "host", "proto"];
    let is_twice = |pairs: &Vec<(String, String)>| {
        known.iter().any(|known| pairs.iter().filter(|(name, _)| name == known).count() > 1)
    };
    let is_valid = state == State::BeforePair && !elements.iter().any(is_twice);
    elements.retain(|pairs| !pairs.is_empty());
    is_valid.then_some(elements)
}

fn parsed(line: &str) -> Option<Vec<(Option<String>, Option<String>)>> {
    let mut found = Vec::new();
    let text =
        |value: Option<ForwardedValue<'_>>| Some(String::from_utf8(value?.unquoted().into_owned()).unwrap());
    let parsed =
        for_each_element(line.as_bytes(), |element| found.push((text(element.node), text(element.proto))));
    parsed.is_ok().then_some(found)
}

fn expected(line: &str) -> Option<Vec<(Option<String>, Option<String>)>> {
    let of = |pairs: &[(String, String)], parameter: &str| {
        pairs.iter().find(|(name, _)| name == parameter).map(|(_, value)| value.clone())
    };
    let elements = oracle(line)?;
    Some(elements.iter().map(|pairs| (of(pairs, "for"), of(pairs, "proto"))).collect())
}

/// Pieces from which most headers, valid or not, can be built.
const PIECES: [&str; 28] = [
    "for",
    "FOR",
    "proto",
    "host",
    "by",
    "x",
    "=",
    "=",
    "=",
    ";",
    ";",
    ",",
    ",",
    "\"",
    "\"",
    "\\",
    "\\\"",
    " ",
    "\t",
    "[",
    "]",
    ":",
    "203.0.113.7",
    "\"[2001:db8::1]:80\"",
    "unknown",
    "_hidden",
    "\"a\\\", for=8.8.8.8\"",
    "é",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// L19: valid and malformed headers, built from the bytes with a meaning.
    #[test]
    fn the_grammar_is_read_as_by_a_second_reader(
        pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..14),
    ) {
        let line = pieces.concat();
        prop_assert_eq!(parsed(&line), expected(&line), "{}", line);
    }

    #[test]
    fn what_fits_the_grammar_is_never_refused(
        elements in prop::collection::vec(
            (prop::option::of("[!-~ ]{0,12}"), prop::option::of("[a-z]{1,5}"), "[ \t]{0,2}"), 1..6)
    ) {
        let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        let element = |(node, proto, blank): &(Option<String>, Option<String>, String)| {
            let node = node.as_ref().map(|node| format!("For={}", quoted(node)));
            let proto = proto.as_ref().map(|proto| format!("proto={proto}"));
            let pairs: Vec<String> = node.into_iter().chain(proto).collect();
            format!("{blank}{}{blank}", pairs.join(";"))
        };
        let line = elements.iter().map(element).collect::<Vec<_>>().join(",");
        let pairs = elements.into_iter().map(|(node, proto, _)| (node, proto));
        let expected: Vec<_> = pairs.filter(|pair| *pair != (None, None)).collect();
        prop_assert_eq!(parsed(&line), Some(expected), "{}", line);
    }
}

#[test]
fn a_node_is_an_address_with_or_without_a_port() {
    let address = |text: &str| {
        let node = Some(ForwardedValue::Quoted(text.as_bytes()));
        ForwardedElement { node, ..ForwardedElement::default() }.address().map(|ip| ip.to_string())
    };
    for (text, ip) in [
        ("203.0.113.7", "203.0.113.7"),
        ("203.0.113.7:80", "203.0.113.7"),
        ("203.0.113.7:_x-1", "203.0.113.7"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:65535", "2001:db8::1"),
        ("203.0.113\\.7", "203.0.113.7"),
    ] {
        assert_eq!(address(text).as_deref(), Some(ip), "{text}");
    }
    for text in [
        "",
        "unknown",
        "_hidden",
        "2001:db8::1",
        "[2001:db8::1",
        "[203.0.113.7]",
        "203.0.113.7:",
        "203.0.113.7:_",
        "203.0.113.7:x",
        "203.0.113.7:123456",
        "[2001:db8::1]80",
        "0177.0.0.1",
        "[fe80::1%eth0]",
        "localhost",
    ] {
        assert_eq!(address(text), None, "{text}");
    }
}
