//! Whom a person can ask who was refused: `refuse.contact`.

use super::accept::ResponseFormat;
use super::escape::push;
use super::texts::Texts;

/// An e-mail address, a URL of a page, or words such as "the help desk, room 12".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact(Box<str>);

impl Contact {
    /// The contact with this text. `None` if it is blank, longer than 200 bytes, or has control characters.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let is_fine = !text.trim().is_empty() && text.len() <= MAX_LENGTH && !text.contains(char::is_control);
        is_fine.then(|| Self(text.trim().into()))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// The line of the page, in the words of its language.
    pub(super) fn line(&self, texts: &Texts) -> String {
        let line = texts.translate("<p class=\"help\">{{text:contact}}</p>");
        line.replace("{{contact}}", &self.html())
    }

    fn html(&self) -> String {
        let (mut text, text_of_page) = (String::new(), self.0.replace("{{", "{ {"));
        push(&mut text, ResponseFormat::Html, &text_of_page);
        match self.scheme() {
            Some(scheme) => format!("<a href=\"{scheme}{text}\">{text}</a>"),
            None => format!("<bdi>{text}</bdi>"),
        }
    }

    /// What a link to it has before the text; `None` if the text is no target of a link.
    fn scheme(&self) -> Option<&'static str> {
        if self.0.contains(char::is_whitespace) {
            return None;
        }
        let is_url = ["https://", "http://"].iter().any(|scheme| self.0.starts_with(scheme));
        if is_url { Some("") } else { self.0.contains('@').then_some("mailto:") }
    }
}

const MAX_LENGTH: usize = 200;

#[cfg(test)]
mod tests {
    use super::super::language::Language;
    use super::*;

    #[test]
    fn an_address_or_a_page_is_a_link_and_words_are_words() {
        let table = [
            ("help@example.org", r#"<a href="mailto:help@example.org">help@example.org</a>"#),
            (
                "https://example.org/?a=1&b",
                r#"<a href="https://example.org/?a=1&amp;b">https://example.org/?a=1&amp;b</a>"#,
            ),
            ("the desk, room 12", "<bdi>the desk, room 12</bdi>"),
            ("javascript:alert(1)", "<bdi>javascript:alert(1)</bdi>"),
            ("\"><b>@", r#"<a href="mailto:&quot;&gt;&lt;b&gt;@">&quot;&gt;&lt;b&gt;@</a>"#),
            ("a {{limit}}", "<bdi>a { {limit}}</bdi>"),
        ];
        let texts = Texts::built_in(Language::English);
        for (text, html) in table {
            let line = Contact::new(text).unwrap().line(&texts);
            assert_eq!(line, format!("<p class=\"help\">Need help? Ask {html}.</p>"));
        }
    }

    #[test]
    fn a_blank_endless_or_unprintable_text_is_no_contact() {
        for text in ["", " ", "a\nb", &"a".repeat(201)] {
            assert_eq!(Contact::new(text), None, "{text:?}");
        }
    }
}
