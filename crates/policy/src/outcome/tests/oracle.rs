//! Responses and rules of every kind, checked against a second implementation, which tries every content that unread
//! parts may have.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, Method, StatusCode};
use proptest::prelude::*;

use super::super::{BodyPrefix, Outcome, OutcomeRule, OutcomeRules, ResponseView};
use super::{body, json, location, status};

/// A rule, by its condition.
#[derive(Debug, Clone, Copy)]
enum SampleRule {
    Status(u16),
    Location,
    Text,
    TextOf(u16),
    Json,
}

/// The text of a page, after blanks.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SampleText {
    Failed,
    Welcome,
    NotOk,
    Ok,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Coded {
    Plainly,
    Gzip,
    Secretly,
    Utf16,
}

/// A response, and the received part of it.
#[derive(Debug, Clone)]
struct Given {
    is_head: bool,
    status: u16,
    leads_home: bool,
    says: SampleText,
    blanks: usize,
    coded: Coded,
    is_cut: bool,
}

impl SampleRule {
    fn rule(self) -> OutcomeRule {
        match self {
            Self::Status(code) => status(code),
            Self::Location => location("/home*"),
            Self::Text => body("Login failed"),
            Self::TextOf(code) => OutcomeRule { body: Some("Login failed".into()), ..status(code) },
            Self::Json => json("/ok", Some("false")),
        }
    }

    /// Whether the rule holds; `None` if it depends on unread parts.
    fn holds(self, given: &Given) -> Option<bool> {
        match self {
            Self::Status(code) => Some(given.status == code),
            Self::Location => Some(given.leads_home),
            Self::TextOf(code) if given.status != code => Some(false),
            Self::Text | Self::TextOf(_) if given.is_in_sight() && given.says == SampleText::Failed => {
                Some(true)
            }
            Self::Json if given.is_wholly_seen() => Some(given.says == SampleText::NotOk),
            Self::Text | Self::TextOf(_) if given.is_wholly_seen() => Some(false),
            Self::Text | Self::TextOf(_) | Self::Json => None,
        }
    }
}

impl Given {
    fn page(&self) -> Vec<u8> {
        let text = match self.says {
            SampleText::Failed => "Login failed",
            SampleText::Welcome => "Hello, alice",
            SampleText::NotOk => "{\"ok\":false}",
            SampleText::Ok => "{\"ok\":true }",
        };
        [&b" ".repeat(self.blanks)[..], text.as_bytes()].concat()
    }

    fn is_readable(&self) -> bool {
        !self.is_head && !matches!(self.status, 206 | 304) && self.coded != Coded::Secretly
    }

    /// Whether the text is in the read part, in a known coding.
    fn is_in_sight(&self) -> bool {
        self.is_readable() && !self.is_cut && self.page().len() <= 64 * 1024
    }

    fn is_wholly_seen(&self) -> bool {
        self.is_in_sight() && self.coded != Coded::Utf16
    }

    fn headers(&self) -> HeaderMap {
        let kind = match self.says {
            SampleText::Failed | SampleText::Welcome => "text/html",
            SampleText::NotOk | SampleText::Ok => "application/json",
        };
        let kind =
            if self.coded == Coded::Utf16 { format!("{kind}; charset=utf-16") } else { kind.to_owned() };
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, kind.parse().unwrap())]);
        let coding = match self.coded {
            Coded::Plainly | Coded::Utf16 => None,
            Coded::Gzip => Some("gzip"),
            Coded::Secretly => Some("secret"),
        };
        headers.extend(coding.map(|coding| (CONTENT_ENCODING, coding.parse().unwrap())));
        headers.extend(self.leads_home.then(|| (LOCATION, "/home".parse().unwrap())));
        headers
    }

    /// The received bytes, and whether they are complete.
    fn bytes(&self) -> (Vec<u8>, bool) {
        let mut bytes = self.page();
        if self.coded == Coded::Gzip {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut gzip, &bytes).unwrap();
            bytes = gzip.finish().unwrap();
        }
        if self.is_cut {
            bytes.truncate(bytes.len().saturating_sub(30));
        }
        (bytes, !self.is_cut)
    }
}

/// The outcome by first match; a failure if it differs between the possible values of undecided rules.
fn by_hand(lists: [&[SampleRule]; 3], otherwise: Outcome, given: &Given) -> Outcome {
    let [failure, success, neutral] = lists;
    let hides = given.status >= 500 || [206, 226, 300, 304, 406, 412, 416].contains(&given.status);
    let rest = if hides { Outcome::Failure } else { otherwise };
    let named = failure.iter().map(|sample| (sample, Outcome::Failure));
    let named = named.chain(success.iter().map(|sample| (sample, Outcome::Success)));
    let named: Vec<_> = named.chain(neutral.iter().map(|sample| (sample, Outcome::Neutral))).collect();
    let possible = (0..1_u32 << named.len()).map(|guesses| {
        let holds = |at: usize, sample: &SampleRule| sample.holds(given).unwrap_or(guesses >> at & 1 == 1);
        let first = named.iter().enumerate().find(|(at, (sample, _))| holds(*at, sample));
        first.map_or(rest, |(_, (_, outcome))| *outcome)
    });
    possible.reduce(|one, other| if one == other { one } else { Outcome::Failure }).unwrap()
}

const STATUSES: [u16; 10] = [200, 302, 401, 404, 206, 304, 406, 416, 500, 503];

fn any_status() -> impl Strategy<Value = u16> {
    prop::sample::select(&STATUSES[..])
}

fn about_heads() -> impl Strategy<Value = SampleRule> {
    prop_oneof![any_status().prop_map(SampleRule::Status), Just(SampleRule::Location)]
}

fn about_anything() -> impl Strategy<Value = SampleRule> {
    prop_oneof![
        about_heads(),
        Just(SampleRule::Text),
        any_status().prop_map(SampleRule::TextOf),
        Just(SampleRule::Json)
    ]
}

fn any_sample() -> impl Strategy<Value = Given> {
    let says = prop::sample::select(vec![
        SampleText::Failed,
        SampleText::Welcome,
        SampleText::NotOk,
        SampleText::Ok,
    ]);
    let blanks = prop::sample::select(vec![0, 1, 64 * 1024 - 12, 64 * 1024 - 11, 70_000]);
    let coded = prop::sample::select(vec![
        Coded::Plainly,
        Coded::Plainly,
        Coded::Gzip,
        Coded::Secretly,
        Coded::Utf16,
    ]);
    let is_cut = prop::bool::weighted(0.2);
    (prop::bool::weighted(0.1), any_status(), any::<bool>(), says, blanks, coded, is_cut).prop_map(
        |(is_head, status, leads_home, says, blanks, coded, is_cut)| Given {
            is_head,
            status,
            leads_home,
            says,
            blanks,
            coded,
            is_cut,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// L8: unread content never counts as absent.
    #[test]
    fn an_answer_is_what_it_is_whatever_stands_where_nothing_was_seen(
        failure in prop::collection::vec(about_anything(), 0..3),
        success in prop::collection::vec(prop_oneof![about_heads(), Just(SampleRule::Json)], 0..3),
        neutral in prop::collection::vec(about_heads(), 0..2),
        otherwise in prop::sample::select(vec![Outcome::Success, Outcome::Failure, Outcome::Neutral]),
        given in any_sample(),
    ) {
        let made = |list: &[SampleRule]| list.iter().map(|sample| sample.rule()).collect();
        let rules = OutcomeRules {
            failure: made(&failure),
            success: made(&success),
            neutral: made(&neutral),
            otherwise,
            header: None,
        };
        let (headers, (bytes, complete)) = (given.headers(), given.bytes());
        let method = if given.is_head { Method::HEAD } else { Method::POST };
        let status = StatusCode::from_u16(given.status).unwrap();
        let response = ResponseView { method: &method, status, headers: &headers };
        let expected = by_hand([&failure, &success, &neutral], otherwise, &given);
        prop_assert_eq!(rules.by_body(&response, BodyPrefix { bytes: &bytes, complete }).outcome, expected);
        if let Some(by_head) = rules.by_head(&response) {
            prop_assert_eq!(by_head.outcome, expected, "by the head alone");
        }
    }
}
