//! The built-in pages: refusals in every language, errors in English.
//!
//! They are made once, when the configuration is loaded; `template` fills them, `builder` picks one.

use std::sync::{Arc, LazyLock};

use http::HeaderValue;

use super::accept_language;
use super::contact::Contact;
use super::language::Language;
use super::offer::OfferTexts;
use super::template::Template;
use super::texts::Texts;

/// The pages of a refusal in every language: the built-in ones, then those that the configuration adds.
#[derive(Debug, PartialEq, Eq)]
pub struct LocalizedPages {
    contact: Option<Contact>,
    pages: Vec<Arc<LocalizedPage>>,
}

/// The position of a language among those of the pages. The default is English, the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageLanguage(usize);

/// The pages of a refusal in one language.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LocalizedPage {
    pub(super) texts: Texts,
    /// With a wait and its clock.
    pub(super) timed: Template,
    /// Where waiting does not help.
    pub(super) untimed: Template,
    /// The text around an offer in its part of the page.
    pub(super) offer: OfferTexts,
}

impl LocalizedPages {
    /// The same pages, with these texts in the place of those of their languages, or as further languages, and with this contact
    /// where there is one.
    #[must_use]
    pub fn with(&self, changed: Vec<Texts>, contact: Option<Contact>) -> Self {
        let mut texts: Vec<_> = self.pages.iter().map(|page| page.texts.clone()).collect();
        for changed in changed {
            match texts.iter_mut().find(|texts| texts.tag() == changed.tag()) {
                Some(known) => *known = changed,
                None => texts.push(changed),
            }
        }
        Self::new(texts, contact.or_else(|| self.contact.clone()))
    }

    /// Those with the texts of the gate.
    #[must_use]
    pub fn built_in() -> &'static Arc<Self> {
        static BUILT_IN: LazyLock<Arc<LocalizedPages>> = LazyLock::new(|| {
            let texts = Language::ALL.map(Texts::built_in);
            Arc::new(LocalizedPages::new(texts.into(), None))
        });
        &BUILT_IN
    }

    /// The texts of the language with this tag.
    #[must_use]
    pub fn texts(&self, tag: &str) -> Option<&Texts> {
        self.pages.iter().map(|page| &page.texts).find(|texts| texts.tag() == tag)
    }

    /// Whom a refused person can ask.
    pub(super) fn contact(&self) -> Option<&str> {
        self.contact.as_ref().map(Contact::text)
    }

    /// The language that an `Accept-Language` prefers.
    pub(super) fn preferred(&self, header: Option<&HeaderValue>) -> PageLanguage {
        PageLanguage(accept_language::preferred(header, self.pages.iter().map(|page| page.texts.tag())))
    }

    /// The pages in a language, in the first one if these pages do not have it.
    pub(super) fn of(&self, language: PageLanguage) -> &LocalizedPage {
        self.pages.get(language.0).unwrap_or(&self.pages[0])
    }

    fn new(texts: Vec<Texts>, contact: Option<Contact>) -> Self {
        let page = |texts| Arc::new(LocalizedPage::new(texts, contact.as_ref()));
        Self { pages: texts.into_iter().map(page).collect(), contact }
    }
}

impl PageLanguage {
    pub(super) fn position(self) -> usize {
        self.0
    }
}

impl LocalizedPage {
    fn new(texts: Texts, contact: Option<&Contact>) -> Self {
        let help = contact.map(|contact| contact.line(&texts)).unwrap_or_default();
        let timed = texts
            .translate(TIMED)
            .replace("{{wait}}", r#"<time datetime="PT{{retry_after}}S">{{wait}}</time>"#)
            .replace("{{help}}", &help);
        let untimed = UNTIMED.replace("{{title}}", "{{text:title}}").replace("{{detail}}", "{{text:never}}");
        let untimed = texts.translate(&untimed).replace("{{help}}", &help);
        let offer = OfferTexts::new(&texts);
        Self { texts, timed: styled(&timed), untimed: styled(&untimed), offer }
    }
}

/// The page of an error.
pub(super) static ERROR: LazyLock<Template> = LazyLock::new(|| {
    let page = UNTIMED.replace("{{text:back}}", "Back to the page").replace("{{help}}\n", "");
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
