//! Resolves a secret of the file: a variable, a file, or the text itself.
//!
//! No message repeats a secret. A reference may be a part of an address; it is then percent-encoded, so that a password
//! may have any letters.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tollgate_grammar::table::SecretText;
use tollgate_grammar::{Findings, Located, Spot};

use super::files::Files;

/// The text of a secret, and its name in messages.
pub(super) fn resolve(
    secret: &Located<SecretText>,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> Option<(String, String)> {
    let Located { value: SecretText(value), spot } = secret;
    let Some(reference) = value.strip_prefix("${") else {
        if !spot.is_in_environment() {
            let hint = "\"${file:PATH}\" or \"${NAME}\" keeps it out of what people copy and lists show";
            f.warning(spot, "the secret itself is written here", hint);
        }
        return Some((value.clone(), "the secret".to_owned()));
    };
    match reference.strip_suffix('}') {
        Some(inner) => match inner.strip_prefix("file:") {
            Some(path) if !path.is_empty() && !files.is_sealed && !files.resolve(path).exists() => {
                let name = files.resolve(path).display().to_string();
                let hint = format!("there is no such file: `openssl rand -base64 32 > {name}` makes one");
                f.error(spot, format!("cannot read `{name}`"), hint);
                None
            }
            Some(path) if !path.is_empty() => {
                Some((files.text(path, spot, f)?.text.clone(), format!("`{path}`")))
            }
            None if is_variable(inner) && files.is_sealed => {
                let message = format!("the variable `{inner}` was not read: the text is checked alone");
                f.warning(spot, message, "`tollgate check` on the gate's machine reads it");
                None
            }
            None if is_variable(inner) => variable(inner, spot, files.environment, f),
            _ => refuse(spot, f),
        },
        None => refuse(spot, f),
    }
}

fn refuse<T>(spot: &Spot, f: &mut Findings) -> Option<T> {
    let hint = "write \"${NAME}\" for a variable or \"${file:PATH}\" for a file";
    f.error(spot, "this names neither a variable nor a file", hint);
    None
}

fn variable(
    name: &str,
    spot: &Spot,
    environment: &[(String, String)],
    f: &mut Findings,
) -> Option<(String, String)> {
    let value = environment.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    match value {
        Some(value) if value.contains(char::REPLACEMENT_CHARACTER) => {
            f.error(spot, format!("the variable `{name}` is not UTF-8"), "");
            None
        }
        Some(value) => Some((value.clone(), format!("the variable `{name}`"))),
        None => {
            let hint = "set it before the gate starts: the environment is read once";
            f.error(spot, format!("there is no variable `{name}` in the environment"), hint);
            None
        }
    }
}

fn is_variable(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Parses one key a line, newest first. Blank lines and lines that begin with `#` are ignored.
pub(super) fn parse_keys(text: &str, origin: &str, spot: &Spot, f: &mut Findings) -> Option<Vec<Vec<u8>>> {
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let lines = (1..).zip(lines).filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let lines: Vec<(usize, &str)> = lines.collect();
    if lines.len() > MAX_KEYS {
        let message = format!("{origin} holds {} keys", lines.len());
        f.error(spot, message, format!("at most {MAX_KEYS}, one a line, newest first"));
        return None;
    }
    let (short, long): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|(_, line)| line.chars().count() < MIN_KEY_LEN);
    for (number, _) in &short {
        f.error(spot, format!("the key on line {number} of {origin} is too short"), MAKE_ONE);
    }
    if short.is_empty() && long.is_empty() {
        f.error(spot, format!("{origin} holds no key"), MAKE_ONE);
    }
    let is_good = short.is_empty() && !long.is_empty();
    is_good.then(|| long.into_iter().map(|(_, line)| line.as_bytes().to_vec()).collect())
}

/// An address with its references resolved.
pub(super) fn resolve_within(
    address: &Located<SecretText>,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> Option<String> {
    let Located { value: SecretText(value), spot } = address;
    let mut resolved = Some(String::new());
    let mut rest = value.as_str();
    while let Some((before, reference)) = rest.split_once("${") {
        let Some((inner, after)) = reference.split_once('}') else { return refuse(spot, f) };
        let part = address.with(SecretText(format!("${{{inner}}}")));
        // Resolves every reference, so that all missing ones are reported.
        let text = resolve(&part, files, f);
        resolved = resolved.zip(text).map(|(so_far, (text, _))| {
            match before.is_empty() && after.is_empty() && so_far.is_empty() {
                true => text.trim_end().to_owned(),
                false => {
                    format!("{so_far}{before}{}", utf8_percent_encode(text.trim_end(), NON_ALPHANUMERIC))
                }
            }
        });
        rest = after;
    }
    resolved.map(|resolved| resolved + rest)
}

pub(super) const MIN_KEY_LEN: usize = 32;
pub(super) const MAKE_ONE: &str = "at least 32 characters; `openssl rand -base64 32` makes a good one";
const MAX_KEYS: usize = 16;
