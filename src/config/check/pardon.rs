//! What lifts refusals, by the list of [`defences`](crate::defences): which pages lack its offer.

use tollgate_grammar::{Findings, Located};

use super::super::raw::RawRoute;
use super::context::CheckContext;
use crate::defences;
use crate::policy::Policy;
use crate::proxy::respond::{RefusalPages, Template};

/// The policy with what lifts its refusals.
pub(super) fn with_pardon(cx: &CheckContext<'_>, policy: Policy, f: &mut Findings) -> Policy {
    let common = cx.raw.refuse.html.as_deref().zip(cx.refuse.pages.html.as_ref());
    let routes = cx.raw.routes.iter().zip(&cx.refuse.of_routes);
    let of_routes = routes.filter_map(|(route, pages)| page_of(&route.value, pages.as_ref()?));
    let without_offer = common.into_iter().chain(of_routes).filter(|(_, page)| !page.has_offer());
    let pages = without_offer.map(|(path, _)| &path.spot);
    let pardon = defences::pardon(&cx.raw.refuse.pardons, &policy, pages, f);
    policy.with_pardon(pardon)
}

fn page_of<'r>(route: &'r RawRoute, pages: &'r RefusalPages) -> Option<(&'r Located<String>, &'r Template)> {
    Some((route.refuse.as_ref()?.value.html.as_deref()?, pages.html.as_ref()?))
}
