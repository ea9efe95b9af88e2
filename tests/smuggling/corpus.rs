//! `corpus.txt`, read.

/// One request, or several on one connection.
pub(crate) struct Case {
    /// Heading, place and oddity.
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// Whether nothing of it may be forwarded to its end.
    pub(crate) is_refused: bool,
}

/// All of them: each oddity in each place.
pub(crate) fn cases() -> Vec<Case> {
    let sections = include_str!("corpus.txt").split("\n= ").skip(1);
    sections.flat_map(section).collect()
}

fn section(text: &str) -> Vec<Case> {
    let mut lines = text.lines();
    let (heading, kind) = lines.next().unwrap().split_once(' ').unwrap();
    let is_refused = match kind {
        "refused" => true,
        "either" => false,
        _ => panic!("{heading} is {kind:?}"),
    };
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty() && !line.starts_with("# ")).collect();
    let (places, oddities): (Vec<&str>, Vec<&str>) =
        lines.into_iter().partition(|line| line.starts_with("@ "));
    let mut cases = Vec::new();
    for (number, place) in places.iter().enumerate() {
        for oddity in &oddities {
            let bytes = decode(&place[2..].replace("{}", oddity));
            cases.push(Case { name: format!("{heading}/{}/{oddity}", number + 1), bytes, is_refused });
        }
    }
    cases
}

/// The notation that the table explains.
fn decode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let (escape, after) = rest[at + 1..].split_at(1);
        rest = after;
        match escape {
            "r" => bytes.push(b'\r'),
            "n" => bytes.push(b'\n'),
            "t" => bytes.push(b'\t'),
            "s" => bytes.push(b' '),
            "0" => bytes.push(0),
            "\\" => bytes.push(b'\\'),
            "E" => {}
            "x" => {
                bytes.push(u8::from_str_radix(&rest[..2], 16).unwrap());
                rest = &rest[2..];
            }
            "R" => {
                let (inside, after) = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).unwrap();
                let (times, what) = inside.split_once(':').unwrap();
                bytes.extend(decode(what).repeat(times.parse().unwrap()));
                rest = after;
            }
            _ => panic!("\\{escape} in {text:?}"),
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

#[test]
fn the_notation_is_read_as_it_is_explained() {
    assert_eq!(decode("a\\s\\x41\\0\\E\\R(3:\\r\\n)\\\\b"), b"a A\0\r\n\r\n\r\n\\b");
}

#[test]
fn every_case_has_a_name_of_its_own() {
    let mut names: Vec<String> = cases().into_iter().map(|case| case.name).collect();
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
}
