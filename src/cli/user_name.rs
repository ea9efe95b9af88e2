//! The name of a user, as far as `/etc/passwd` has it: people know names, and the kernel knows numbers.

use std::fs;

/// The user who runs this command.
pub(super) fn own() -> String {
    of_uid(rustix::process::getuid().as_raw())
}

/// An operator as the admin API writes it: `uid 1000` becomes `alice`, if this machine knows the number.
pub(super) fn of_operator(by: &str) -> String {
    match by.strip_prefix("uid ").and_then(|uid| uid.parse().ok()) {
        Some(uid) => of_uid(uid),
        None => by.to_owned(),
    }
}

fn of_uid(uid: u32) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    named(&users, uid).map_or_else(|| format!("uid {uid}"), str::to_owned)
}

/// The name of the first line with this number (passwd(5)).
fn named(users: &str, uid: u32) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(uid) && !name.is_empty()).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_the_name_of_its_first_line_or_none() {
        let users = "root:x:0:0:root:/root:/bin/bash\nbroken\nalice:x:1000:1000::/home/alice:/bin/sh\nbob:x:1000:1::/:/\n";
        assert_eq!(
            (named(users, 0), named(users, 1000), named(users, 1)),
            (Some("root"), Some("alice"), None)
        );
    }

    #[test]
    fn a_caller_over_tcp_is_its_address() {
        assert_eq!(of_operator("192.0.2.7"), "192.0.2.7");
        assert_eq!(of_operator("uid 0"), "root");
    }
}
