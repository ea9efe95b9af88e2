//! The patterns that schemas have for texts whose check needs other keys.

use tollgate_grammar::document::TomlValue;
use tollgate_grammar::kind::{Kind, TextPattern};
use tollgate_grammar::schema::Schema;
use tollgate_grammar::{Findings, Located};

use crate::config::preset::presets;

/// An entry of `match`.
pub enum RequestPattern {}

impl TextPattern for RequestPattern {
    fn pattern() -> String {
        r"^\s*\S+\s+/\S*\s*$|^rls:[^/]+(/[^=]+(=[\s\S]+)?)?$|^policy:(\*|[\w.-]+)$".to_owned()
    }
}

/// An entry of `cors`.
pub enum CorsOrigin {}

impl TextPattern for CorsOrigin {
    fn pattern() -> String {
        r"^(\*|https?://[^/?#@*A-Z]+)$".to_owned()
    }
}

/// The name of a preset. Valid ones are expanded before the file is read; an invalid one has been reported.
pub enum PresetName {}

impl Kind for PresetName {
    type Raw = TomlValue;
    type Value = ();

    fn schema() -> Schema {
        Schema::words(presets().iter().map(|preset| preset.name).collect())
    }

    fn check(_: &Located<TomlValue>, _: &mut Findings) -> Option<()> {
        Some(())
    }
}
