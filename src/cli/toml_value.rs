//! Values as TOML, for files that commands write.

/// A TOML basic string.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            _ if letter.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(letter))),
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// A single value as a string, several as a list.
pub(super) fn toml_of(values: &[String]) -> String {
    match values {
        [one] => quoted(one),
        several => list_of(several),
    }
}

/// A list, also of one value or none.
pub(super) fn list_of(values: &[String]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| quoted(value)).collect();
    format!("[{}]", quoted.join(", "))
}
