//! What limits for accounts need of the routes that they apply to, and of `[device]`.
//!
//! Nearly all of it is legal, and surely not meant. The surprising thing: a limit that counts failures counts every attempt
//! on a route that does not say what a failure is.

use super::super::diagnostic::Findings;
use super::super::document::Located;
use super::super::raw;
use crate::policy::key::Part;
use crate::policy::outcome::Outcome;
use crate::policy::{Limit, Mode, Route, Spends, Unit};

/// Says what is missing. `has_devices` says whether there is a `[device]`.
pub(super) fn check(
    raw: &raw::File,
    routes: &mut [Option<Route>],
    limits: &[Option<Limit>],
    has_devices: bool,
    f: &mut Findings,
) {
    for (raw, limit) in raw.limits.iter().zip(limits) {
        let Some(limit) = limit.as_ref().filter(|limit| limit.mode != Mode::Off) else { continue };
        let spot = raw.value.key.as_ref().map_or(&raw.name.spot, |key| &key.spot);
        if limit.key.contains(&Part::Device) && !has_devices {
            f.warning(spot, "no device is ever known, so nothing is counted here", DEVICE);
        } else if limit.is_account() && limit.mode == Mode::Enforce && !has_devices {
            let message =
                format!("with limit `{}` anybody can lock the owner of an account out", raw.name.value);
            f.warning(spot, message, format!("known devices keep their own budget: {DEVICE}"));
        }
    }
    for (raw, route) in raw.routes.iter().zip(routes) {
        let Some(route) = route else { continue };
        let reaching = route.limits.iter().filter_map(|&limit| limits.get(limit)?.as_ref());
        let reaching: Vec<&Limit> = reaching.filter(|limit| limit.mode != Mode::Off).collect();
        warn_of_missing_fields(&raw.name, route, &reaching, f);
        let counts_failures = reaching.iter().any(|limit| limit.spends == Spends::Failures);
        let is_silent = route.rules.success.is_empty() && route.rules.failure.is_empty();
        if counts_failures && is_silent && raw.value.otherwise.is_none() {
            let message = format!("route `{}` does not say what a success is", raw.name.value);
            let hint = "every attempt counts as a failure; add success = [{ status = 302 }]";
            f.warning(&raw.name.spot, message, hint);
            route.rules.otherwise = Outcome::Failure;
        }
    }
}

fn warn_of_missing_fields(name: &Located<String>, route: &Route, reaching: &[&Limit], f: &mut Findings) {
    let asks = |limit: &&&Limit| limit.asks_for_accounts();
    if let Some(limit) = reaching.iter().find(asks).filter(|_| route.user.is_empty()) {
        let message =
            format!("route `{}` names no `user`, which limit `{}` asks for", name.value, limit.name);
        f.warning(
            &name.spot,
            message,
            "add user = \"form:username\"; without it all accounts share one bucket",
        );
    }
    let counts_passwords = |limit: &&&Limit| limit.unit == Unit::Passwords;
    if let Some(limit) = reaching.iter().find(counts_passwords).filter(|_| route.password.is_empty()) {
        let message =
            format!("route `{}` names no `password`, which limit `{}` asks for", name.value, limit.name);
        f.warning(&name.spot, message, "add password = \"form:password\"; without it every attempt counts");
    }
}

const DEVICE: &str = "add [device] with secret = \"${file:device.keys}\"";
