//! Which preset's markers the pages of a site hold.

use http::header::WWW_AUTHENTICATE;

use super::site::FetchedPage;
use crate::config::preset::{Preset, PresetMarkers, presets};

/// A preset, and the markers by which it was recognised.
pub(super) struct RecognisedPreset {
    pub(super) preset: &'static Preset,
    pub(super) markers: PresetMarkers,
    /// In words of the preset.
    pub(super) found: Vec<String>,
}

/// What the pages say of presets.
pub(super) struct PresetSigns {
    /// The presets of which most markers hold: none, one, or several that match equally.
    pub(super) best: Vec<RecognisedPreset>,
    /// The others of which any holds.
    pub(super) weaker: Vec<RecognisedPreset>,
}

pub(super) fn recognise(pages: &[FetchedPage]) -> PresetSigns {
    let mut all: Vec<RecognisedPreset> = presets().iter().filter_map(|preset| of(preset, pages)).collect();
    if all.iter().any(|one| !one.markers.is_fallback) {
        all.retain(|one| !one.markers.is_fallback);
    }
    let most = all.iter().map(|one| one.found.len()).max().unwrap_or_default();
    let (best, weaker) = all.into_iter().partition(|one| one.found.len() == most);
    PresetSigns { best, weaker }
}

/// Whether the server asks for Basic (RFC 7617).
pub(super) fn asks_for_basic(page: &FetchedPage) -> bool {
    let challenges = page.headers.get_all(WWW_AUTHENTICATE).iter();
    let is_basic =
        |challenge: &[u8]| challenge.get(..5).is_some_and(|word| word.eq_ignore_ascii_case(b"basic"));
    page.status.as_u16() == 401 && challenges.into_iter().any(|challenge| is_basic(challenge.as_bytes()))
}

fn of(preset: &'static Preset, pages: &[FetchedPage]) -> Option<RecognisedPreset> {
    let markers = preset.markers()?;
    let mut found = Vec::new();
    for text in markers.pages.iter().filter(|text| pages.iter().any(|page| page.text.contains(&***text))) {
        found.push(format!("page {text:?}"));
    }
    let forms = || pages.iter().flat_map(|page| &page.html.forms);
    for names in markers.forms.iter().filter(|names| forms().any(|form| form.has(names))) {
        found.push(format!("form \"{}\"", names.join(" ")));
    }
    let cookies = || pages.iter().flat_map(FetchedPage::cookies);
    for (text, name) in &markers.cookies {
        if cookies().any(|cookie| name.matches(cookie.as_bytes())) {
            found.push(format!("cookie {text:?}"));
        }
    }
    for (name, value) in &markers.headers {
        let mut lines = pages.iter().flat_map(|page| page.headers.get_all(name));
        if lines.any(|line| value.matches(line.as_bytes())) {
            found.push(format!("header \"{name}\""));
        }
    }
    (!found.is_empty()).then_some(RecognisedPreset { preset, markers, found })
}
