//! Which fields of a request name its accounts, in the words of the file.

use crate::policy::Route;
use crate::policy::attempt::Attempt;
use crate::policy::field::{Field, Half, values};

/// The fields of these routes that hold a name, as in `form:log in the body`.
pub(super) fn naming(routes: &[&Route], attempt: &Attempt<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for field in routes.iter().flat_map(|route| &route.reading.user) {
        let holds_name = values(std::slice::from_ref(field), Half::User, attempt)
            .is_ok_and(|values| !values.is_empty() && !values.is_unreadable());
        let words = words(field);
        if holds_name && !found.contains(&words) {
            found.push(words);
        }
    }
    found
}

/// The fields of these routes that may hold a name, as the file writes them.
pub(super) fn configured(routes: &[&Route]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for field in routes.iter().flat_map(|route| &route.reading.user) {
        let words = words(field);
        if !all.contains(&words) {
            all.push(words);
        }
    }
    all
}

fn words(field: &Field) -> String {
    match field {
        Field::Form(name) => format!("form:{name} in the body"),
        Field::Json(pointer) => format!("json:{pointer} in the body"),
        Field::Query(name) => format!("query:{name} in the target"),
        Field::Header(name) => format!("the header {name}"),
        Field::Basic => "Authorization: Basic".to_owned(),
        Field::Ntlm => "Authorization: NTLM".to_owned(),
        Field::Negotiate => "Authorization: Negotiate".to_owned(),
    }
}
