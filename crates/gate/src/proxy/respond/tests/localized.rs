//! The page of a refusal in the language of its reader.

use super::*;
use crate::policy::{Offer, OfferedPause};

fn localized(settings: &RefuseSettings, what: &Refusal, language: &'static str) -> Response<Bytes> {
    let accept = HeaderValue::from_static("text/html");
    let headers = HeaderMap::from_iter([(ACCEPT_LANGUAGE, HeaderValue::from_static(language))]);
    let pause = OfferedPause { ticket: "t1".to_owned(), left: Span::from_nanos(29 * SECOND + 1) };
    let offer = Offer { task: "c1".to_owned(), pause: Some(pause) };
    let negotiation = Negotiation {
        accept: Some(&accept),
        head: false,
        request_id: &HeaderValue::from_static("01-ab"),
        language: language_of(&settings.pages, Some(&accept), &headers),
        offer: Some(ShownOffer { offer: &offer, action: "?next=%2F\"<&tollgate-proof=t1" }),
    };
    refusal(settings, &policy(&["address"]), what, &negotiation)
}

#[test]
fn every_language_has_whole_pages() {
    for language in Language::ALL {
        let (tag, dir) = (language.tag(), if language == Language::Arabic { "rtl" } else { "ltr" });
        for what in [refused(200 * SECOND), never_fits()] {
            let response = localized(&RefuseSettings::default(), &what, tag);
            let page = body(&response);
            assert!(page.contains(&format!("<html lang=\"{tag}\" dir=\"{dir}\">")), "{page}");
            assert!(!page.contains("{{") && !page.contains("}}"), "{page}");
            assert_eq!(response.headers()["content-language"], tag);
            assert_eq!(response.headers()["vary"], "Accept, Accept-Language");
            assert_eq!(page.contains("Back to the form"), language == Language::English);
            assert!(!page.contains("class=\"help\""), "nobody is named: {page}");
            assert_eq!(page.contains("data-challenge=\"c1\""), what.wait.is_some(), "{page}");
            let action = "action=\"?next=%2F&quot;&lt;&amp;tollgate-proof=t1\"";
            assert_eq!(page.contains(action), what.wait.is_some(), "{page}");
            assert_eq!(
                page.contains("Or wait 30 seconds"),
                what.wait.is_some() && language == Language::English,
                "{page}"
            );
        }
    }
}

#[test]
fn a_wait_is_told_in_the_readers_words() {
    let page = |language| {
        let response = localized(&RefuseSettings::default(), &refused(142 * SECOND), language);
        body(&response).to_owned()
    };
    assert!(page("de-AT,de;q=0.9").contains(r#">2 Minuten 22 Sekunden</time> und versuchen"#));
    assert!(page("pl").contains(r#"Odczekaj <time datetime="PT142S">2 minuty 22 sekundy</time>, a potem"#));
    assert!(page("ar").contains(">دقيقتين و22 ثانية</time>"));
    assert!(page("tlh").contains(">2 minutes 22 seconds</time>"));
}

#[test]
fn programs_terminals_and_a_page_of_ones_own_have_one_language() {
    let settings = RefuseSettings::default();
    let pages = RefusalPages { html: Some(Template::parse("{{wait}}")), ..RefusalPages::default() };
    let own = RefuseSettings { pages, ..RefuseSettings::default() };
    let german = HeaderMap::from_iter([(ACCEPT_LANGUAGE, HeaderValue::from_static("de"))]);
    for accept in ["*/*", "application/json"] {
        let accept = HeaderValue::from_static(accept);
        assert_eq!(language_of(&settings.pages, Some(&accept), &german), PageLanguage::default());
    }
    let response = localized(&own, &refused(60 * SECOND), "de");
    assert_eq!(body(&response), "1 minute");
    assert_eq!(response.headers()["vary"], "Accept");
    assert!(!response.headers().contains_key("content-language"));
}

#[test]
fn a_text_of_the_configuration_stands_on_the_page_as_text() {
    let mut texts = Texts::built_in(Language::French);
    assert_eq!(texts.replace("title", "Trop <b>vite</b>"), Ok(()));
    assert_eq!(texts.replace("minutes", "{{count}} <min> | {{count}} <min>"), Ok(()));
    let settings = with(vec![texts], None);
    let page = |language| body(&localized(&settings, &refused(60 * SECOND), language)).to_owned();
    let french = page("fr");
    assert!(french.contains("<h1>Trop &lt;b&gt;vite&lt;/b&gt;</h1>"), "{french}");
    assert!(french.contains("Attendez <time datetime=\"PT60S\">1 &lt;min&gt;</time>"), "{french}");
    assert!(french.contains("Retour au formulaire"), "the other texts stay");
    assert_eq!(page("es"), body(&localized(&RefuseSettings::default(), &refused(60 * SECOND), "es")));
}

#[test]
fn a_further_language_is_that_of_the_readers_who_prefer_it() {
    let further = [Texts::of("cs", Language::Polish, false), Texts::of("he", Language::English, true)];
    let mut further: Vec<_> = further.into_iter().flatten().collect();
    assert_eq!(further[0].replace("back", "Zpět"), Ok(()));
    let settings = with(further, None);
    let page = |language| body(&localized(&settings, &refused(142 * SECOND), language)).to_owned();
    let czech = page("cs-CZ,cs;q=0.9,de;q=0.8");
    assert!(czech.contains(r#"<html lang="cs" dir="ltr">"#) && czech.contains("Zpět"), "{czech}");
    assert!(page("he").contains(r#"<html lang="he" dir="rtl">"#));
    assert!(page("de").contains("Zurück"));
}

#[test]
fn a_refused_person_is_told_whom_to_ask() {
    let settings = with(Vec::new(), Contact::new("help@example.org"));
    let german = body(&localized(&settings, &refused(SECOND), "de")).to_owned();
    assert!(german.contains(r#"Hilfe erhalten Sie hier: <a href="mailto:help@example.org">"#), "{german}");
    let never = body(&localized(&settings, &never_fits(), "en")).to_owned();
    assert!(never.contains("Need help? Ask <a href="), "{never}");
    let of = |accept: &'static str| {
        let (accept, id) = (HeaderValue::from_static(accept), HeaderValue::from_static("1"));
        let language = PageLanguage::default();
        let negotiation =
            Negotiation { accept: Some(&accept), head: false, request_id: &id, language, offer: None };
        body(&refusal(&settings, &policy(&["address"]), &refused(SECOND), &negotiation)).to_owned()
    };
    assert!(of("application/json").contains(r#","contact":"help@example.org","#));
    assert!(of("text/plain").ends_with("\nNeed help? Ask help@example.org.\n"));
}

fn with(texts: Vec<Texts>, contact: Option<Contact>) -> RefuseSettings {
    let localized = Arc::new(LocalizedPages::built_in().with(texts, contact));
    RefuseSettings {
        pages: RefusalPages { localized, ..RefusalPages::default() },
        ..RefuseSettings::default()
    }
}

#[test]
fn refusals_of_several_languages_are_remembered_apart() {
    let (cache, settings) = (RefusalCache::default(), Arc::new(RefuseSettings::default()));
    let (accept, id) = (HeaderValue::from_static("text/html"), HeaderValue::from_static("1"));
    let header = |language: Language| HeaderValue::from_static(language.tag());
    for language in Language::ALL.into_iter().chain(Language::ALL) {
        let language = LocalizedPages::built_in().preferred(Some(&header(language)));
        let negotiation =
            Negotiation { accept: Some(&accept), head: false, request_id: &id, language, offer: None };
        let (policy, what) = (policy(&["address"]), refused(9 * SECOND));
        let given = sent(cache.refusal(1, &settings, &policy, &what, &negotiation), &id);
        assert_eq!(given.body(), refusal(&settings, &policy, &what, &negotiation).body());
    }
}
