//! Names of the user's choice, and references to them.

use super::diagnostic::{Findings, suggest};
use super::document::Located;
use super::table::RawNamed;

/// The pattern of a name.
pub const PATTERN: &str = "^[A-Za-z0-9_.-]{1,64}$";

/// Checks a name. Names become labels, header values and paths, where other letters would need three kinds of quoting.
pub fn check(name: &Located<String>, f: &mut Findings) {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let text = &name.value;
    if text.is_empty() || text.len() > MAX_LEN || !text.bytes().all(plain) {
        f.error(&name.spot, format!("`{text}` is not a name"), "1 to 64 of: letters, digits, `-`, `_`, `.`");
    }
}

/// The position of a name in a list; an unknown name is reported with the nearest one. `kind` is the table of the list.
pub fn index_of<T>(
    name: &Located<String>,
    kind: &str,
    all: &[RawNamed<T>],
    f: &mut Findings,
) -> Option<usize> {
    let index = all.iter().position(|named| named.name.value == name.value);
    if index.is_none() {
        let hint = match all.is_empty() {
            true => format!("there is no {kind} yet: write [{kind}.{}]", name.value),
            false => suggest(&name.value, all.iter().map(|named| named.name.value.as_str())),
        };
        f.error(&name.spot, format!("unknown {kind} `{}`", name.value), hint);
    }
    index
}

const MAX_LEN: usize = 64;
