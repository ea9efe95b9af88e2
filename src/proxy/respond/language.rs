//! The languages of the built-in page: which one a browser prefers, its direction, and which plural a number takes.
//!
//! `texts` has the texts of each.

use http::HeaderValue;

use super::accept::weight;

/// A language of the built-in page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    /// `en`, for all who prefer none of the others.
    #[default]
    English,
    /// `de`.
    German,
    /// `fr`.
    French,
    /// `es`.
    Spanish,
    /// `pt`.
    Portuguese,
    /// `it`.
    Italian,
    /// `nl`.
    Dutch,
    /// `pl`.
    Polish,
    /// `ja`.
    Japanese,
    /// `zh`.
    Chinese,
    /// `ar`.
    Arabic,
}

impl Language {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 11] = [
        Self::English,
        Self::German,
        Self::French,
        Self::Spanish,
        Self::Portuguese,
        Self::Italian,
        Self::Dutch,
        Self::Polish,
        Self::Japanese,
        Self::Chinese,
        Self::Arabic,
    ];

    /// The language that an `Accept-Language` prefers (RFC 9110, section 12.5.4), by the first part of each tag; English if
    /// it names none of ours.
    #[must_use]
    pub fn preferred(accept: Option<&HeaderValue>) -> Self {
        let mut best = (0, Self::default());
        let ranges = accept.map_or(&b""[..], HeaderValue::as_bytes).split(|&byte| byte == b',');
        for range in ranges.take(MAX_RANGES) {
            let mut parts = range.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            let Some(language) = parts.next().and_then(Self::of_range) else { continue };
            let weight = parts.find_map(weight).unwrap_or(1000);
            if weight > best.0 {
                best = (weight, language);
            }
        }
        best.1
    }

    fn of_range(range: &[u8]) -> Option<Self> {
        let primary = range.split(|&byte| byte == b'-').next()?;
        Self::ALL.into_iter().find(|language| primary.eq_ignore_ascii_case(language.tag().as_bytes()))
    }

    /// The tag (RFC 5646) of `lang` and `Content-Language`.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::German => "de",
            Self::French => "fr",
            Self::Spanish => "es",
            Self::Portuguese => "pt",
            Self::Italian => "it",
            Self::Dutch => "nl",
            Self::Polish => "pl",
            Self::Japanese => "ja",
            Self::Chinese => "zh",
            Self::Arabic => "ar",
        }
    }

    /// Which way its lines run, as `dir` says it.
    pub(super) fn direction(self) -> &'static str {
        if self == Self::Arabic { "rtl" } else { "ltr" }
    }

    /// How many forms a counted noun has.
    pub(super) fn plural_forms(self) -> usize {
        match self {
            Self::Japanese | Self::Chinese => 1,
            Self::Polish => 3,
            Self::Arabic => 5,
            _ => 2,
        }
    }

    /// Which of its forms a noun has behind this number, which is not 0 (Unicode CLDR, language plural rules).
    pub(super) fn plural_form(self, count: u64) -> usize {
        match (self, count, count % 10, count % 100) {
            (Self::Japanese | Self::Chinese, ..) | (_, 1, ..) => 0,
            (Self::Polish, _, 2..=4, hundredths) if !(12..=14).contains(&hundredths) => 1,
            (Self::Polish, ..) => 2,
            (Self::Arabic, 2, ..) => 1,
            (Self::Arabic, _, _, 3..=10) => 2,
            (Self::Arabic, _, _, 11..=99) => 3,
            (Self::Arabic, ..) => 4,
            _ => 1,
        }
    }
}

/// Languages of a header that are read; further ones are ignored. Real headers have fewer.
const MAX_RANGES: usize = 32;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn preferred(accept: &str) -> &'static str {
        Language::preferred(Some(&HeaderValue::from_str(accept).unwrap())).tag()
    }

    #[test]
    fn the_heaviest_language_that_there_is_wins_and_the_first_of_equals() {
        let table = [
            ("", "en"),
            ("*", "en"),
            ("de", "de"),
            ("DE-at", "de"),
            ("sv, de;q=0.5", "de"),
            ("sv-SE,sv;q=0.9", "en"),
            ("en;q=0.8, fr;q=0.9", "fr"),
            ("fr;q=0, en;q=0.1", "en"),
            ("fr;q=0", "en"),
            ("fr;q=0.000, pl;q=0.001", "pl"),
            ("it, es", "it"),
            ("zh-Hant-TW", "zh"),
            (";;,,q=1,-", "en"),
            ("deutsch", "en"),
        ];
        for (accept, tag) in table {
            assert_eq!(preferred(accept), tag, "{accept:?}");
        }
        assert_eq!(Language::preferred(None).tag(), "en");
        let no_text = HeaderValue::from_bytes(b"\xff-de, ja;q=\xff").unwrap();
        assert_eq!(Language::preferred(Some(&no_text)).tag(), "ja");
    }

    /// As Chromium, Firefox, Safari and Edge send them, desktop and phone.
    #[test]
    fn people_read_the_first_language_of_their_browser() {
        let table = [
            ("en-US,en;q=0.9", "en"),
            ("en-US,en;q=0.5", "en"),
            ("en-GB,en-US;q=0.9,en;q=0.8", "en"),
            ("de-DE,de;q=0.9,en-US;q=0.8,en;q=0.7", "de"),
            ("de,en-US;q=0.7,en;q=0.3", "de"),
            ("de-CH", "de"),
            ("fr-FR,fr;q=0.9", "fr"),
            ("fr,fr-FR;q=0.8,en-US;q=0.5,en;q=0.3", "fr"),
            ("es-419,es;q=0.9,en;q=0.8", "es"),
            ("es-ES,es;q=0.8,en-US;q=0.5,en;q=0.3", "es"),
            ("pt-BR,pt;q=0.9,en-US;q=0.8,en;q=0.7", "pt"),
            ("pt-PT,pt;q=0.8,en;q=0.5,en-US;q=0.3", "pt"),
            ("it-IT,it;q=0.9,en-US;q=0.8,en;q=0.7", "it"),
            ("nl,en-US;q=0.7,en;q=0.3", "nl"),
            ("nl-BE,nl;q=0.9,fr;q=0.8,en;q=0.7", "nl"),
            ("pl,en-US;q=0.7,en;q=0.3", "pl"),
            ("ja,en-US;q=0.9,en;q=0.8", "ja"),
            ("zh-CN,zh;q=0.9,zh-TW;q=0.8,zh-HK;q=0.7,en-US;q=0.6,en;q=0.5", "zh"),
            ("zh-TW,zh;q=0.9", "zh"),
            ("ar,en-US;q=0.9,en;q=0.8", "ar"),
            ("ar-EG,ar;q=0.9", "ar"),
            ("sv-SE,sv;q=0.8,en-US;q=0.5,en;q=0.3", "en"),
            ("tr-TR,tr;q=0.9,de-DE;q=0.8,de;q=0.7,en;q=0.6", "de"),
            ("gsw-CH,de-CH;q=0.9,en;q=0.8", "de"),
        ];
        for (accept, tag) in table {
            assert_eq!(preferred(accept), tag, "{accept:?}");
        }
    }

    #[test]
    fn the_rest_of_an_endless_header_is_not_read() {
        assert_eq!(preferred(&format!("{}de", "sv,".repeat(31))), "de");
        assert_eq!(preferred(&format!("{}de", "sv,".repeat(32))), "en");
    }

    #[test]
    fn a_number_takes_the_plural_of_its_language() {
        let forms = |language: Language, counts: &[u64]| -> Vec<usize> {
            counts.iter().map(|count| language.plural_form(*count)).collect()
        };
        assert_eq!(forms(Language::German, &[1, 2, 21, 101]), [0, 1, 1, 1]);
        assert_eq!(forms(Language::Japanese, &[1, 2, 21]), [0, 0, 0]);
        let polish = [1, 2, 4, 5, 11, 12, 14, 21, 22, 24, 25, 59, 101, 102, 112];
        assert_eq!(forms(Language::Polish, &polish), [0, 1, 1, 2, 2, 2, 2, 2, 1, 1, 2, 2, 2, 1, 2]);
        let arabic = [1, 2, 3, 10, 11, 59, 99, 100, 102, 103, 110, 111, 200];
        assert_eq!(forms(Language::Arabic, &arabic), [0, 1, 2, 2, 3, 3, 3, 4, 4, 2, 2, 3, 4]);
        for language in Language::ALL {
            let last = (1..=1_000).map(|count| language.plural_form(count)).max();
            assert_eq!(last, Some(language.plural_forms() - 1), "{language:?}");
        }
    }

    proptest! {
        #[test]
        fn every_header_has_one_language(
            ranges in proptest::collection::vec("([a-zA-Z]{1,3}|de|ar|\\*)(-[a-zA-Z0-9]{0,4})?( ?;[qQ]=[0-9.]{0,6})?", 0..50),
            noise in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            for header in [ranges.join(",").into_bytes(), noise] {
                let Ok(header) = HeaderValue::from_bytes(&header) else { continue };
                prop_assert!(Language::ALL.contains(&Language::preferred(Some(&header))));
            }
        }
    }
}
