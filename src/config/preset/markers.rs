//! `[detect]` of a preset: by what `tollgate init --detect` recognises the application, and where its sign-in is.
//!
//! A gate never reads it. What pages hold is looked at by the command; here are only the words of the file.

use std::sync::Arc;

use http::HeaderName;
use tollgate_grammar::document::{TomlTable, TomlValue};
use tollgate_grammar::{Findings, SourceKind, SourceText};

use super::super::secrets::DIALECT;
use super::{DETECT, Preset};
use crate::policy::response::Glob;

/// What tells an application from others. Each marker is enough.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PresetMarkers {
    /// Texts of its pages: `page`.
    pub pages: Vec<String>,
    /// Names of fields that one form has together: `form`.
    pub forms: Vec<Vec<String>>,
    /// Names of cookies: `cookie`.
    pub cookies: Vec<(String, Glob)>,
    /// Headers with their values: `header`.
    pub headers: Vec<(HeaderName, Glob)>,
    /// Paths of the page with the form, below the application's own: `path`.
    pub paths: Vec<String>,
    /// The path and the body of a sign-in as JSON, with `NAME` and `PASSWORD` in it: `json`.
    pub json: Option<(String, String)>,
    /// Where a script sends the form of the page: `action`.
    pub action: Option<String>,
    /// A header, and the cookie whose value such a sign-in repeats in it: `token`.
    pub token: Option<(HeaderName, Glob)>,
    /// Whether they count only where no other preset's do: `fallback`.
    pub is_fallback: bool,
}

impl Preset {
    /// Its markers; `None` if it has none, or they are broken, which a test rules out.
    #[must_use]
    pub fn markers(&self) -> Option<PresetMarkers> {
        let (_, text) = self.file.split_once(DETECT)?;
        let name = format!("preset {}", self.name);
        let text = text.to_owned();
        let source = Arc::new(SourceText { kind: SourceKind::Preset, name, text, dialect: &DIALECT });
        let table = TomlTable::parse(&source, &mut Findings::default())?;
        let mut markers = PresetMarkers::default();
        for entry in &table.0 {
            markers.read(&entry.key.value, &entry.node.value)?;
        }
        Some(markers)
    }
}

impl PresetMarkers {
    fn read(&mut self, key: &str, value: &TomlValue) -> Option<()> {
        if let ("fallback", TomlValue::Boolean(is_fallback)) = (key, value) {
            self.is_fallback = *is_fallback;
            return Some(());
        }
        let texts = strings(value)?;
        let header = |text: &String| {
            let (name, value) = text.split_once(": ")?;
            Some((name.parse().ok()?, Glob::new(value)))
        };
        match key {
            "page" => self.pages = texts,
            "form" => {
                let names = |text: &String| text.split_whitespace().map(str::to_owned).collect();
                self.forms = texts.iter().map(names).collect();
            }
            "cookie" => {
                self.cookies = texts.into_iter().map(|text| (text.clone(), Glob::new(&text))).collect()
            }
            "header" => self.headers = texts.iter().map(header).collect::<Option<_>>()?,
            "path" => self.paths = texts,
            "action" => self.action = texts.into_iter().next(),
            "json" => {
                let (path, body) = texts.first()?.strip_prefix("POST ")?.split_once(' ')?;
                self.json = Some((path.to_owned(), body.to_owned()));
            }
            "token" => self.token = Some(header(texts.first()?)?),
            _ => return None,
        }
        Some(())
    }
}

/// A string, or several.
fn strings(value: &TomlValue) -> Option<Vec<String>> {
    match value {
        TomlValue::String(text) => Some(vec![text.clone()]),
        TomlValue::List(items) => items
            .iter()
            .map(|item| match &item.value {
                TomlValue::String(text) => Some(text.clone()),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}
