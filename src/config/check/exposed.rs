//! `[exposed]` and `exposed` of routes: the list of exposed passwords, and what happens to attempts with one of them.

use std::sync::Arc;

use tollgate_grammar::{Findings, Located, RawNamed};

use super::context::CheckContext;
use super::files::{Files, words};
use crate::exposed::{FilterError, PasswordFilter};
use crate::policy::{ExposedAction, ExposedPasswords};

/// The list; `None` without a file, or if no route asks for it.
pub(super) fn check(cx: &mut CheckContext<'_>, f: &mut Findings) -> Option<Arc<dyn ExposedPasswords>> {
    let file = cx.raw.exposed.file.as_ref().filter(|file| !file.value.is_empty());
    let mut is_asked = false;
    for (RawNamed { value, .. }, route) in cx.raw.routes.iter().zip(&mut cx.routes) {
        let Some(word) = &value.exposed else { continue };
        is_asked = true;
        let action = word.checked(f);
        if file.is_none() {
            f.error(&word.spot, "no list of exposed passwords is named", MAKE_ONE);
        }
        let Some(route) = route else { continue };
        if route.reading.password.is_empty() && value.password.is_none() {
            let message = format!("route `{}` names no `password`, so none is looked up", route.name);
            f.warning(&word.spot, message, "add password = \"form:password\"");
        }
        route.exposed = action.map(|action| if cx.observes { ExposedAction::Observe } else { action });
    }
    let file = file?;
    if !is_asked {
        f.warning(&file.spot, "no route looks passwords up here", "[route.NAME] exposed = \"mark\"");
    }
    open(file, &mut cx.files, f)
}

fn open(
    Located { value, spot }: &Located<String>,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> Option<Arc<dyn ExposedPasswords>> {
    let path = files.path_of(value, spot, f)?;
    match PasswordFilter::open(&path) {
        Ok(filter) => Some(Arc::new(filter)),
        Err(FilterError::Read(error)) => {
            f.error(spot, format!("cannot read `{}`", path.display()), words(&error));
            None
        }
        Err(FilterError::Format(why)) => {
            f.error(spot, format!("cannot use `{}`: {why}", path.display()), BUILD_AGAIN);
            None
        }
    }
}

const BUILD_AGAIN: &str = "`tollgate exposed build LIST FILE` makes one of a list of hashes";
const MAKE_ONE: &str =
    "[exposed] file = \"passwords.filter\", which `tollgate exposed build` makes of a list of hashes";
