//! The forms and links of a page. Its text is the server's: nothing here trusts it, and all of it is bounded.

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{StartTag, Token, Tokenizer};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What a page offers to go on with.
#[derive(Debug, Default)]
pub(super) struct HtmlPage {
    pub(super) forms: Vec<HtmlForm>,
    /// Addresses of links, as they are written.
    pub(super) links: Vec<String>,
}

/// A form, as a browser reads it.
#[derive(Debug, Default)]
pub(super) struct HtmlForm {
    /// Where it is sent, as it is written; empty for the page itself.
    pub(super) action: String,
    pub(super) is_post: bool,
    /// Whether its body is urlencoded, as browsers send forms that ask for nothing else.
    pub(super) is_urlencoded: bool,
    pub(super) controls: Vec<FormControl>,
}

/// A named control of a form.
#[derive(Debug)]
pub(super) struct FormControl {
    pub(super) name: String,
    value: String,
    kind: ControlKind,
    /// Whether a browser that nobody touched sends it.
    is_sent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ControlKind {
    Password,
    /// A line of text, or a mail address.
    Text {
        is_mail: bool,
    },
    /// Its options set the value.
    Select,
    Submit,
    Other,
}

/// The fields of a sign-in in a form: positions of its controls.
#[derive(Debug, Clone, Copy)]
pub(super) struct SignInFields {
    pub(super) user: Option<usize>,
    pub(super) password: usize,
}

impl HtmlPage {
    pub(super) fn parse(text: &str) -> Self {
        let mut emitter = DefaultEmitter::default();
        // Scripts and styles hold no tags.
        emitter.naively_switch_states(true);
        let mut page = Self::default();
        let mut is_in_form = false;
        for token in Tokenizer::new_with_emitter(text, emitter).flatten() {
            match token {
                Token::StartTag(tag) if *tag.name == b"form" => {
                    is_in_form = page.forms.len() < MAX_FORMS;
                    if is_in_form {
                        page.forms.push(HtmlForm::of(&tag));
                    }
                }
                Token::EndTag(tag) if *tag.name == b"form" => is_in_form = false,
                Token::StartTag(tag) if *tag.name == b"a" => {
                    let link = attribute(&tag, "href").filter(|_| page.links.len() < MAX_LINKS);
                    page.links.extend(link);
                }
                Token::StartTag(tag) if is_in_form => {
                    if let Some(form) = page.forms.last_mut() {
                        form.add(&tag);
                    }
                }
                _ => {}
            }
        }
        page
    }
}

impl HtmlForm {
    fn of(tag: &StartTag<()>) -> Self {
        let word = |name| attribute(tag, name).unwrap_or_default().trim().to_ascii_lowercase();
        Self {
            action: attribute(tag, "action").unwrap_or_default(),
            is_post: word("method") == "post",
            is_urlencoded: !matches!(&*word("enctype"), "multipart/form-data" | "text/plain"),
            controls: Vec::new(),
        }
    }

    fn add(&mut self, tag: &StartTag<()>) {
        let has = |name: &str| tag.attributes.contains_key(name.as_bytes());
        let value = attribute(tag, "value");
        let kind = match &**tag.name {
            b"option" => return self.choose(value.unwrap_or_default(), has("selected")),
            b"select" => ControlKind::Select,
            b"input" | b"button" => ControlKind::of(tag),
            _ => return,
        };
        let name = attribute(tag, "name").unwrap_or_default();
        if name.is_empty() || has("disabled") || self.controls.len() >= MAX_CONTROLS {
            return;
        }
        let is_box =
            matches!(&*attribute(tag, "type").unwrap_or_default().to_ascii_lowercase(), "checkbox" | "radio");
        let is_sent = match kind {
            // The one that Enter presses.
            ControlKind::Submit => !self.controls.iter().any(|known| known.kind == ControlKind::Submit),
            // It has no value before an option.
            ControlKind::Select => false,
            _ => !is_box || has("checked"),
        };
        let value = value.unwrap_or_else(|| if is_box { "on".to_owned() } else { String::new() });
        self.controls.push(FormControl { name, value, kind, is_sent });
    }

    /// An option of the list before it: the first one counts until one is selected.
    fn choose(&mut self, value: String, is_selected: bool) {
        let Some(list) = self.controls.last_mut().filter(|last| last.kind == ControlKind::Select) else {
            return;
        };
        if is_selected || !list.is_sent {
            (list.value, list.is_sent) = (value, true);
        }
    }

    /// The fields of a sign-in; `None` if it is another form. Two passwords are a registration or a change.
    pub(super) fn sign_in(&self) -> Option<SignInFields> {
        let mut passwords = self.positions(|control| control.kind == ControlKind::Password);
        let password = passwords.next().filter(|_| passwords.next().is_none())?;
        let mut texts = self.positions(|control| matches!(control.kind, ControlKind::Text { .. }));
        let user = texts.by_ref().take_while(|&at| at < password).last();
        Some(SignInFields { user, password })
    }

    /// The fields of this sign-in, by names that a preset has for them.
    pub(super) fn sign_in_of(&self, users: &[String], passwords: &[String]) -> Option<SignInFields> {
        let named = |names: &[String]| self.controls.iter().position(|control| names.contains(&control.name));
        let (user, password) = (named(users), named(passwords)?);
        (user.is_some() || users.is_empty()).then_some(SignInFields { user, password })
    }

    /// Whether the account is a mail address.
    pub(super) fn takes_mail(&self, fields: SignInFields) -> bool {
        fields.user.and_then(|at| self.controls.get(at)).is_some_and(|control| {
            control.kind == ControlKind::Text { is_mail: true }
                || control.name.to_ascii_lowercase().contains("mail")
        })
    }

    /// The name of a control.
    pub(super) fn name(&self, at: usize) -> &str {
        self.controls.get(at).map_or("", |control| &control.name)
    }

    /// Whether it has all of these controls.
    pub(super) fn has(&self, names: &[String]) -> bool {
        names.iter().all(|name| self.controls.iter().any(|control| control.name == *name))
    }

    /// The body that a browser sends when a person has typed these two in.
    pub(super) fn body(&self, fields: SignInFields, user: &str, password: &str) -> String {
        let pairs = self.controls.iter().enumerate().filter_map(|(at, control)| {
            let value = match at {
                _ if at == fields.password => password,
                _ if Some(at) == fields.user => user,
                _ if control.is_sent => &control.value,
                _ => return None,
            };
            Some(format!("{}={}", form_encoded(&control.name), form_encoded(value)))
        });
        pairs.collect::<Vec<_>>().join("&")
    }

    fn positions(&self, is_one: impl Fn(&FormControl) -> bool) -> impl Iterator<Item = usize> {
        self.controls.iter().enumerate().filter(move |(_, control)| is_one(control)).map(|(at, _)| at)
    }
}

impl ControlKind {
    fn of(tag: &StartTag<()>) -> Self {
        let kind = attribute(tag, "type").unwrap_or_default().trim().to_ascii_lowercase();
        match (&**tag.name, &*kind) {
            (b"button", "button" | "reset") | (b"input", "button" | "reset" | "file" | "image") => {
                Self::Other
            }
            (b"button", _) | (_, "submit") => Self::Submit,
            (_, "password") => Self::Password,
            (_, "email") => Self::Text { is_mail: true },
            (_, "" | "text" | "tel") => Self::Text { is_mail: false },
            _ => Self::Other,
        }
    }
}

fn attribute(tag: &StartTag<()>, name: &str) -> Option<String> {
    let value = tag.attributes.get(name.as_bytes())?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// `application/x-www-form-urlencoded`.
pub(super) fn form_encoded(text: &str) -> String {
    utf8_percent_encode(text, IN_FORMS).to_string()
}

/// All but what a form's encoding leaves as it is.
const IN_FORMS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'*');
const MAX_FORMS: usize = 32;
const MAX_CONTROLS: usize = 256;
const MAX_LINKS: usize = 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_registration_and_a_search_are_no_sign_in() {
        let page = HtmlPage::parse(
            "<form><input name=q></form><form method=post><input name=a><input type=password name=b>\
             <input type=password name=c></form><form method=POST action=/in><input name=who><input type=Password name=pw>\
             <script>'<input type=password name=d>'</script></form><input type=password name=outside>",
        );
        let found: Vec<_> = page.forms.iter().map(|form| form.sign_in().is_some()).collect();
        assert_eq!(found, [false, false, true]);
        let form = &page.forms[2];
        assert_eq!(form.body(form.sign_in().unwrap(), "a b&c", "\u{e4}"), "who=a%20b%26c&pw=%C3%A4");
    }

    #[test]
    fn what_a_page_can_grow_is_bounded() {
        let many = |piece: &str| HtmlPage::parse(&piece.repeat(20_000));
        assert_eq!(many("<form>").forms.len(), MAX_FORMS);
        assert_eq!(many("<a href=x>").links.len(), MAX_LINKS);
        let controls = HtmlPage::parse(&format!("<form>{}", "<input name=x>".repeat(20_000)));
        assert_eq!(controls.forms[0].controls.len(), MAX_CONTROLS);
        for piece in ["<", "<a ", "<!--", "&amp", "<script>", "<form x=", "\0"] {
            many(piece);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_page(text in "(<(form|input|a|select|option|/form|script)( (name|type|href|value)=?['\"]?.{0,9})*>?|.{0,5}){0,20}") {
            let page = HtmlPage::parse(&text);
            for form in &page.forms {
                if let Some(fields) = form.sign_in() {
                    form.body(fields, "user", "password");
                }
            }
        }
    }
}
