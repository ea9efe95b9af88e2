//! The built-in pages: refusals in every language, errors in English.
//!
//! They are made once, when the configuration is loaded; `template` fills them, `builder` picks one.

use std::sync::{Arc, LazyLock};

use super::language::Language;
use super::offer;
use super::template::Template;
use super::texts::Texts;

/// The pages of a refusal in every language.
#[derive(Debug, PartialEq, Eq)]
pub struct LocalizedPages([Arc<LocalizedPage>; Language::ALL.len()]);

/// The pages of a refusal in one language.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LocalizedPage {
    pub(super) texts: Texts,
    /// With a wait and its clock.
    pub(super) timed: Template,
    /// Where waiting does not help.
    pub(super) untimed: Template,
    /// What stands before and behind an offer in its part of the page.
    pub(super) offer: [String; 2],
}

impl LocalizedPages {
    /// Those with the texts that `texts` gives for each language.
    #[must_use]
    pub fn new(texts: impl Fn(Language) -> Texts) -> Self {
        Self(Language::ALL.map(|language| Arc::new(LocalizedPage::new(texts(language)))))
    }

    /// The same pages with other texts in these languages.
    #[must_use]
    pub fn with(&self, changed: Vec<(Language, Texts)>) -> Self {
        let mut pages = self.0.clone();
        for (language, texts) in changed {
            pages[language as usize] = Arc::new(LocalizedPage::new(texts));
        }
        Self(pages)
    }

    /// Those with the texts of the gate.
    #[must_use]
    pub fn built_in() -> &'static Arc<Self> {
        static BUILT_IN: LazyLock<Arc<LocalizedPages>> =
            LazyLock::new(|| Arc::new(LocalizedPages::new(Texts::built_in)));
        &BUILT_IN
    }

    /// The texts in one language.
    #[must_use]
    pub fn texts(&self, language: Language) -> &Texts {
        &self.of(language).texts
    }

    pub(super) fn of(&self, language: Language) -> &LocalizedPage {
        &self.0[language as usize]
    }
}

impl LocalizedPage {
    fn new(texts: Texts) -> Self {
        let timed = texts
            .translate(TIMED)
            .replace("{{wait}}", r#"<time datetime="PT{{retry_after}}S">{{wait}}</time>"#);
        let untimed = UNTIMED.replace("{{title}}", "{{text:title}}").replace("{{detail}}", "{{text:never}}");
        let untimed = texts.translate(&untimed);
        let offer = offer::parts(&texts);
        Self { texts, timed: styled(&timed), untimed: styled(&untimed), offer }
    }
}

/// The page of an error.
pub(super) static ERROR: LazyLock<Template> = LazyLock::new(|| {
    let page = UNTIMED.replace("{{text:back}}", "Back to the page");
    styled(&Texts::built_in(Language::English).translate(&page))
});

fn styled(page: &str) -> Template {
    Template::parse(&page.replace("{{style}}", include_str!("../../../assets/page.css")))
}

/// The page's clock runs without script: four strips of digits, each one line high, jump one line every 600, 60, 10 or
/// 1 seconds. Each strip starts at the offset that shows 00:00 exactly at the end of the wait. For waits of an hour and
/// more the clock has no height.
const TIMED: &str = include_str!("../../../assets/refused.html");
const UNTIMED: &str = include_str!("../../../assets/problem.html");
