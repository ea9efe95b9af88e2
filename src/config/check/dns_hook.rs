//! `tls.acme.dns_hook`: the command that changes DNS, and the names that need one.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;

use tollgate_grammar::{Findings, List};

use super::super::raw::RawAcme;
use super::files::Files;
use crate::net::tls::{DnsHook, ValidationMethod};

/// `None` without the key, or after a mistake was reported.
pub(super) fn check(
    raw: &RawAcme,
    method: ValidationMethod,
    files: &Files<'_>,
    f: &mut Findings,
) -> Option<DnsHook> {
    let by_dns = method == ValidationMethod::Dns01;
    let names = || raw.domains.iter().flat_map(|list| &list.value);
    for name in names().filter(|name| by_dns && name.value.parse::<IpAddr>().is_ok()) {
        let hint =
            "leave `challenge` out: with dns_hook alone, wildcards are proved by DNS and addresses are not";
        f.error(&name.spot, format!("DNS cannot prove `{}`", name.value), hint);
    }
    let mut wildcards = names().filter(|name| name.value.starts_with("*."));
    let Some(list) = &raw.dns_hook else {
        for name in wildcards {
            f.error(&name.spot, format!("only DNS can prove `{}`", name.value), HOOK);
        }
        if let Some(word) = raw.validation.as_ref().filter(|_| by_dns) {
            f.error(&word.spot, "`dns-01` needs a command that changes DNS", HOOK);
        }
        return None;
    };
    if !by_dns && wildcards.next().is_none() {
        let hint = "add challenge = \"dns-01\", or a wildcard such as \"*.example.org\"";
        f.warning(&list.spot, "no name is proved by DNS", hint);
    }
    command(list, files, f)
}

fn command(list: &List, files: &Files<'_>, f: &mut Findings) -> Option<DnsHook> {
    let Some((program, arguments)) = list.value.split_first().filter(|_| list.value.len() <= MAX_WORDS)
    else {
        f.error(&list.spot, "1 to 16 words belong here", HOOK);
        return None;
    };
    if !program.value.starts_with('/') {
        f.error(&program.spot, format!("`{}` is not the path of a command", program.value), HOOK);
        return None;
    }
    if !files.is_sealed && !is_program(&program.value) {
        let hint = "it has to be a file that the gate's user may execute";
        f.error(&program.spot, format!("`{}` cannot be run", program.value), hint);
        return None;
    }
    let arguments = arguments.iter().map(|argument| argument.value.clone()).collect();
    Some(DnsHook { program: program.value.clone().into(), arguments })
}

fn is_program(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

const MAX_WORDS: usize = 16;
const HOOK: &str = "as in dns_hook = [\"/usr/local/bin/change-dns\"]";
