//! The texts of a refusal's built-in page in one language: those of `assets/languages`, or of the configuration.
//!
//! A text is plain: its markup is escaped. `language` picks the plural for a number, `pages` makes the pages.

use http::HeaderValue;
use thiserror::Error;

use super::ResponseFormat;
use super::escape::{push, push_number};
use super::language::Language;

/// The texts in one language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// The tag (RFC 5646) of `lang` and `Content-Language`.
    tag: HeaderValue,
    direction: &'static str,
    /// The language whose plurals these texts have.
    plurals: Language,
    texts: Vec<(&'static str, Box<str>)>,
}

/// Why a text cannot replace a built-in one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TextError {
    /// It has no words.
    #[error("the text is empty")]
    Empty,
    /// It has braces that are none of the placeholders of the built-in text, or it lacks one of them.
    #[error("the text must have {}", if .0.is_empty() { "no `{{`" } else { .0 })]
    Placeholders(&'static str),
    /// A counted noun has another number of forms.
    #[error("forms of the noun: {given} are given, this language needs {expected}")]
    Forms {
        /// Those of the text.
        given: usize,
        /// Those of the language.
        expected: usize,
    },
}

impl Texts {
    /// The keys of texts that 0.1.0 did not have: a further language without them shows the English ones.
    pub const NEWER: [&'static str; 2] = ["pause", "resume"];

    /// The built-in ones.
    #[must_use]
    pub fn built_in(language: Language) -> Self {
        let lines = file(language).lines().filter_map(|line| line.split_once(" = "));
        Self {
            tag: HeaderValue::from_static(language.tag()),
            direction: language.direction(),
            plurals: language,
            texts: lines.map(|(key, text)| (key, text.into())).collect(),
        }
    }

    /// A language that is not built in, with the texts of `plurals`, which are to be replaced but for [newer](Self::NEWER)
    /// ones. `None` if the tag cannot be a header's value.
    #[must_use]
    pub fn of(tag: &str, plurals: Language, is_right_to_left: bool) -> Option<Self> {
        let direction = if is_right_to_left { "rtl" } else { "ltr" };
        let english = Self::built_in(Language::English);
        let mut own = Self { direction, ..Self::built_in(plurals) };
        for (key, text) in own.texts.iter_mut().filter(|(key, _)| Self::NEWER.contains(key)) {
            *text = english.text(key).into();
        }
        own.of_region(tag)
    }

    /// The same texts for the language with this tag, as a region writes it: `de-AT`. `None` if the tag cannot be a header's
    /// value.
    #[must_use]
    pub fn of_region(self, tag: &str) -> Option<Self> {
        let tag = HeaderValue::from_str(tag).ok().filter(|tag| tag.to_str().is_ok())?;
        Some(Self { tag, ..self })
    }

    /// Puts a text in the place of a built-in one. A key that there is not changes nothing.
    ///
    /// # Errors
    /// If the page cannot be filled with it.
    pub fn replace(&mut self, key: &str, text: &str) -> Result<(), TextError> {
        check(self.plurals, key, text)?;
        let old = self.texts.iter_mut().find(|(known, _)| *known == key);
        old.into_iter().for_each(|(_, old)| *old = text.into());
        Ok(())
    }

    /// The tag of the language (RFC 5646).
    #[must_use]
    pub fn tag(&self) -> &str {
        self.tag.to_str().unwrap_or_default()
    }

    pub(super) fn content_language(&self) -> &HeaderValue {
        &self.tag
    }

    /// Replaces `{{text:KEY}}` by the texts, `{{lang}}` and `{{dir}}` by HTML's names of the language and its direction.
    pub(super) fn translate(&self, page: &str) -> String {
        let page = page.replace("{{lang}}", self.tag()).replace("{{dir}}", self.direction);
        self.texts.iter().fold(page, |page, (key, text)| {
            let mut escaped = String::new();
            push(&mut escaped, ResponseFormat::Html, text);
            page.replace(&format!("{{{{text:{key}}}}}"), &escaped)
        })
    }

    /// A wait in words, exact to the second: `3 minutes 20 seconds`.
    pub(super) fn wait(&self, seconds: u64) -> String {
        let (mut words, mut rest) = (String::new(), seconds);
        for (key, length) in UNITS {
            let count = rest / length;
            rest %= length;
            if count > 0 {
                words.push_str(if words.is_empty() { "" } else { between(self.text("list")).unwrap_or(" ") });
                self.push_count(&mut words, key, count);
            }
        }
        words
    }

    fn push_count(&self, out: &mut String, unit: &str, count: u64) {
        let form = self.text(unit).split(FORMS).nth(self.plurals.plural_form(count)).unwrap_or_default();
        let Some((before, after)) = form.split_once(COUNT) else { return out.push_str(form) };
        out.push_str(before);
        push_number(out, count);
        out.push_str(after);
    }

    fn text(&self, key: &str) -> &str {
        self.texts.iter().find(|(known, _)| *known == key).map_or("", |(_, text)| text)
    }
}

fn check(language: Language, key: &str, text: &str) -> Result<(), TextError> {
    let braces = text.matches("{{").count();
    match key {
        _ if text.trim().is_empty() => Err(TextError::Empty),
        "list" if between(text).is_none() => Err(TextError::Placeholders("`{{first}}` before `{{then}}`")),
        "list" => Ok(()),
        "wait" | "pause" if (text.matches("{{wait}}").count(), braces) != (1, 1) => {
            Err(TextError::Placeholders("one `{{wait}}` and no other braces"))
        }
        "contact" if (text.matches("{{contact}}").count(), braces) != (1, 1) => {
            Err(TextError::Placeholders("one `{{contact}}` and no other braces"))
        }
        "wait" | "pause" | "contact" => Ok(()),
        _ if UNITS.iter().any(|(unit, _)| *unit == key) => check_forms(language, text),
        _ if braces > 0 => Err(TextError::Placeholders("")),
        _ => Ok(()),
    }
}

/// Forms without a number are fine: some languages have words for one and two.
fn check_forms(language: Language, text: &str) -> Result<(), TextError> {
    let (given, expected) = (text.split(FORMS).count(), language.plural_forms());
    if given != expected {
        return Err(TextError::Forms { given, expected });
    }
    let is_bad = |form: &str| form.matches("{{").count() > form.matches(COUNT).count().min(1);
    if text.split(FORMS).any(is_bad) {
        Err(TextError::Placeholders("`{{count}}` alone in each form"))
    } else {
        Ok(())
    }
}

/// The text between two parts of a wait.
fn between(list: &str) -> Option<&str> {
    let between = list.strip_prefix("{{first}}")?.strip_suffix("{{then}}")?;
    (!between.contains("{{")).then_some(between)
}

macro_rules! files {
    ($language:expr, $($variant:ident $tag:literal),*) => {
        match $language { $(Language::$variant => include_str!(concat!("../../../assets/languages/", $tag, ".txt"))),* }
    };
}

fn file(language: Language) -> &'static str {
    files!(
        language, English "en", German "de", French "fr", Spanish "es", Portuguese "pt", Italian "it", Dutch "nl",
        Polish "pl", Japanese "ja", Chinese "zh", TraditionalChinese "zh-TW", Arabic "ar"
    )
}

/// The keys of counted nouns, with their seconds.
const UNITS: [(&str, u64); 4] = [("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1)];
const FORMS: &str = " | ";
const COUNT: &str = "{{count}}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_every_text_with_its_placeholders() {
        let keys = |texts: &Texts| texts.texts.iter().map(|(key, _)| *key).collect::<Vec<_>>();
        let english = Texts::built_in(Language::English);
        for language in Language::ALL {
            let texts = Texts::built_in(language);
            assert_eq!(keys(&texts), keys(&english), "{language:?}");
            for (key, text) in &texts.texts {
                assert_eq!(texts.clone().replace(key, text), Ok(()), "{language:?}: {key}");
            }
        }
    }

    #[test]
    fn a_further_language_has_the_newer_texts_in_english() {
        let (own, english) =
            (Texts::of("cs", Language::Polish, false).unwrap(), Texts::built_in(Language::English));
        for key in Texts::NEWER {
            assert_eq!(own.text(key), english.text(key));
        }
        assert_eq!(own.wait(305), "5 minut 5 sekund", "the plurals are its own");
    }

    #[test]
    fn a_wait_is_exact_to_the_second() {
        let table = [
            (Language::English, 1, "1 second"),
            (Language::English, 60, "1 minute"),
            (Language::English, 200, "3 minutes 20 seconds"),
            (Language::English, 90_061, "1 day 1 hour 1 minute 1 second"),
            (Language::German, 200, "3 Minuten 20 Sekunden"),
            (Language::Polish, 61, "1 minutę 1 sekundę"),
            (Language::Polish, 142, "2 minuty 22 sekundy"),
            (Language::Polish, 305, "5 minut 5 sekund"),
            (Language::Japanese, 3_620, "1時間20秒"),
            (Language::TraditionalChinese, 3_620, "1 小時 20 秒"),
            (Language::Arabic, 1, "ثانية واحدة"),
            (Language::Arabic, 122, "دقيقتين وثانيتين"),
            (Language::Arabic, 185, "3 دقائق و5 ثوانٍ"),
            (Language::Arabic, 660, "11 دقيقة"),
        ];
        for (language, seconds, words) in table {
            assert_eq!(Texts::built_in(language).wait(seconds), words);
        }
    }

    #[test]
    fn a_text_that_the_page_cannot_be_filled_with_changes_nothing() {
        let built_in = Texts::built_in(Language::Polish);
        let mut texts = built_in.clone();
        let table = [
            ("title", "", "the text is empty"),
            ("title", "{{wait}}", "the text must have no `{{`"),
            ("wait", "Later", "the text must have one `{{wait}}` and no other braces"),
            ("wait", "{{wait}} {{limit}}", "the text must have one `{{wait}}` and no other braces"),
            ("list", "{{first}}", "the text must have `{{first}}` before `{{then}}`"),
            ("days", "{{count}} dni", "forms of the noun: 1 are given, this language needs 3"),
            ("days", "a | b | {{n}}", "the text must have `{{count}}` alone in each form"),
        ];
        for (key, text, message) in table {
            assert_eq!(texts.replace(key, text).unwrap_err().to_string(), message, "{key}: {text}");
        }
        assert_eq!(texts, built_in);
    }
}
