//! What is found alike in many places, as in the files of many sites: it is told once, with its places.

use std::collections::HashMap;

use tollgate_grammar::Diagnostic;

/// The findings, mistakes first: those that differ in names and places only behind the first of them, if they are many.
#[must_use]
pub fn grouped_alike(found: &[Diagnostic]) -> Vec<Vec<&Diagnostic>> {
    let (mistakes, warnings): (Vec<_>, Vec<_>) = found.iter().partition(|diagnostic| diagnostic.is_error());
    [mistakes, warnings].iter().flat_map(|found| by_form(found)).collect()
}

/// As in `the same 9 times more: a.toml:3:8, b.toml:3:8 and 7 more`; `None` for a finding that is alone.
#[must_use]
pub fn further_places(alike: &[&Diagnostic]) -> Option<String> {
    let others = alike.get(1..).filter(|others| !others.is_empty())?;
    let places: Vec<_> = others.iter().map(|other| other.place()).collect();
    Some(format!("the same {} times more: {}", others.len(), shortened(&places)))
}

/// A list of which the first few are named.
#[must_use]
pub fn shortened(names: &[String]) -> String {
    match names.get(..NAMED) {
        Some(first) if names.len() > NAMED => {
            format!("{} and {} more", first.join(", "), names.len() - NAMED)
        }
        _ => names.join(", "),
    }
}

fn by_form<'d>(found: &[&'d Diagnostic]) -> Vec<Vec<&'d Diagnostic>> {
    let mut groups: Vec<Vec<&Diagnostic>> = Vec::new();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for diagnostic in found {
        let number = *numbers.entry(diagnostic.form()).or_insert(groups.len());
        match groups.get_mut(number) {
            Some(group) => group.push(diagnostic),
            None => groups.push(vec![diagnostic]),
        }
    }
    let parts = groups.into_iter().flat_map(|group| match group.len() >= ALIKE {
        true => vec![group],
        false => group.into_iter().map(|one| vec![one]).collect(),
    });
    parts.collect()
}

/// So many that differ in names only are shown as one.
pub const ALIKE: usize = 4;
/// Names and places that are listed of them.
const NAMED: usize = 8;
