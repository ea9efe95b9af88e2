//! Names of accounts in the file and in files of names: one a line, blank lines and lines that begin with `#` aside.
//!
//! Only their keyed hashes are kept.

use tollgate_grammar::{Findings, Spot};

use super::files::Files;
use super::list_file::lines;
use super::networks::is_prefix;
use crate::policy::account::Account;
use crate::policy::fingerprint::Fingerprint;

/// The account of a name that is in the file itself.
pub(super) fn account(name: &str, spot: &Spot, f: &mut Findings) -> Option<Fingerprint> {
    let account = Account::fold(name.as_bytes());
    if account.as_bytes().is_empty() {
        f.error(spot, "this is not the name of an account", "as in \"admin\"");
        return None;
    }
    Some(Fingerprint::of_account(&account))
}

/// The accounts of a file.
pub(super) fn listed_accounts(
    path: &str,
    spot: &Spot,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> Vec<Fingerprint> {
    let Some(source) = files.text(path, spot, f) else { return Vec::new() };
    let names = lines(&source).map(|(_, line)| line.trim());
    let names = names.filter(|name| !name.is_empty() && !name.starts_with('#'));
    let (mut accounts, mut network) = (Vec::new(), None);
    for name in names {
        accounts.push(Fingerprint::of_account(&Account::fold(name.as_bytes())));
        network = network.or_else(|| is_prefix(name).then_some(name));
    }
    if accounts.is_empty() {
        f.warning(spot, format!("there is no name in `{path}`"), "one name of an account a line");
    }
    if let Some(network) = network {
        let message = format!("`{path}` lists accounts, and `{network}` is a network");
        f.warning(spot, message, "name a file of networks in [networks], and that name here");
    }
    accounts
}
