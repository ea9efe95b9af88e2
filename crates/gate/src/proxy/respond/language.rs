//! The built-in languages of a refusal's page: their direction, and which plural a number takes.
//!
//! `texts` has the texts of each, `accept_language` chooses the one that a browser prefers.

/// A built-in language.
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
    /// `zh-TW`.
    TraditionalChinese,
    /// `ar`.
    Arabic,
}

impl Language {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 12] = [
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
        Self::TraditionalChinese,
        Self::Arabic,
    ];

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
            Self::TraditionalChinese => "zh-TW",
            Self::Arabic => "ar",
        }
    }

    /// Which way its lines run, in the words of HTML's `dir`.
    pub(super) fn direction(self) -> &'static str {
        if self == Self::Arabic { "rtl" } else { "ltr" }
    }

    /// How many forms a counted noun has.
    pub(super) fn plural_forms(self) -> usize {
        match self {
            Self::Japanese | Self::Chinese | Self::TraditionalChinese => 1,
            Self::Polish => 3,
            Self::Arabic => 5,
            _ => 2,
        }
    }

    /// Which of its forms a noun has behind this number, which is not 0 (Unicode CLDR, language plural rules).
    pub(super) fn plural_form(self, count: u64) -> usize {
        match (self, count, count % 10, count % 100) {
            (Self::Japanese | Self::Chinese | Self::TraditionalChinese, ..) | (_, 1, ..) => 0,
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
