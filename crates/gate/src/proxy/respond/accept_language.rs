//! Which language of a refusal's page a browser prefers.
//!
//! `pages` has the languages: the built-in ones, and those of the configuration.

use http::HeaderValue;

use super::accept::weight;

/// The position of the language that an `Accept-Language` (RFC 9110, section 12.5.4) prefers among `tags`, by lookup (RFC 4647,
/// section 3.4): `de-AT` finds `de`. The first one if the header names none of them.
pub(super) fn preferred<'a>(
    header: Option<&HeaderValue>,
    tags: impl Iterator<Item = &'a str> + Clone,
) -> usize {
    let mut best = (0, 0);
    let ranges = header.map_or(&b""[..], HeaderValue::as_bytes).split(|&byte| byte == b',');
    for range in ranges.take(MAX_RANGES) {
        let mut parts = range.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let Some(language) = parts.next().and_then(|range| look_up(range, tags.clone())) else { continue };
        let weight = parts.find_map(weight).unwrap_or(1000);
        if weight > best.0 {
            best = (weight, language);
        }
    }
    best.1
}

fn look_up<'a>(range: &[u8], tags: impl Iterator<Item = &'a str> + Clone) -> Option<usize> {
    let is_traditional = TRADITIONAL.iter().any(|start| starts_with(range, start));
    let mut range = if is_traditional { b"zh-TW" } else { range };
    loop {
        let known = tags.clone().position(|tag| range.eq_ignore_ascii_case(tag.as_bytes()));
        match range.iter().rposition(|&byte| byte == b'-') {
            Some(end) if known.is_none() => range = &range[..end],
            _ => return known,
        }
    }
}

fn starts_with(range: &[u8], start: &str) -> bool {
    range.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start.as_bytes()))
}

/// Ranges whose readers read traditional Chinese.
const TRADITIONAL: [&str; 3] = ["zh-Hant", "zh-HK", "zh-MO"];

/// Languages of a header that are read; further ones are ignored. Real headers have fewer.
const MAX_RANGES: usize = 32;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::language::Language;
    use super::*;

    fn preferred(accept: &str) -> &'static str {
        of_header(Some(&HeaderValue::from_str(accept).unwrap()))
    }

    fn of_header(header: Option<&HeaderValue>) -> &'static str {
        let tags = Language::ALL.map(Language::tag);
        tags[super::preferred(header, tags.into_iter())]
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
            ("zh-Hant-TW", "zh-TW"),
            ("zh-Hans-HK", "zh"),
            ("zh-hk", "zh-TW"),
            (";;,,q=1,-", "en"),
            ("deutsch", "en"),
        ];
        for (accept, tag) in table {
            assert_eq!(preferred(accept), tag, "{accept:?}");
        }
        assert_eq!(of_header(None), "en");
        let no_text = HeaderValue::from_bytes(b"\xff-de, ja;q=\xff").unwrap();
        assert_eq!(of_header(Some(&no_text)), "ja");
    }

    #[test]
    fn a_tag_with_a_region_is_found_before_its_language_and_only_by_those_who_name_it() {
        let tags = ["en", "pt", "pt-BR", "de-CH"];
        let found = |accept: &'static str| {
            tags[super::preferred(Some(&HeaderValue::from_static(accept)), tags.into_iter())]
        };
        let table =
            [("pt-br", "pt-BR"), ("pt-PT", "pt"), ("pt", "pt"), ("de-CH-1996", "de-CH"), ("de", "en")];
        for (accept, tag) in table {
            assert_eq!(found(accept), tag, "{accept}");
        }
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
            ("zh-TW,zh;q=0.9", "zh-TW"),
            ("zh-HK,zh;q=0.9,en;q=0.8", "zh-TW"),
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

    proptest! {
        #[test]
        fn every_header_has_one_language(
            ranges in proptest::collection::vec("([a-zA-Z]{1,3}|de|ar|\\*)(-[a-zA-Z0-9]{0,4}){0,3}( ?;[qQ]=[0-9.]{0,6})?", 0..50),
            noise in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            for header in [ranges.join(",").into_bytes(), noise] {
                let Ok(header) = HeaderValue::from_bytes(&header) else { continue };
                prop_assert!(Language::ALL.map(Language::tag).contains(&of_header(Some(&header))));
            }
        }
    }
}
