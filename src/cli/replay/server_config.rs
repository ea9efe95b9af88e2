//! The log formats that a configuration of nginx or Apache defines. Other files that it includes are not read.

use crate::replay::line::LogPattern;

/// `log_format NAME [escape=...] 'piece' 'piece' ...;`, without those in which a replay lacks something.
pub(super) fn of_nginx(text: &str) -> Vec<LogPattern> {
    let plain: String =
        text.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n");
    let definitions = plain.split("log_format").skip(1);
    definitions.filter_map(|definition| LogPattern::of(&pieces(definition)).ok()).collect()
}

/// `LogFormat "format" [NAME]`, and `CustomLog FILE "format"`.
pub(super) fn of_apache(text: &str) -> Vec<LogPattern> {
    let is_format = |line: &&str| ["logformat", "customlog"].iter().any(|word| starts_with(line, word));
    let lines = text.lines().map(str::trim).filter(is_format);
    lines.filter_map(|line| LogPattern::of(&piece_with_directives(line)).ok()).collect()
}

fn starts_with(line: &str, word: &str) -> bool {
    line.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// The quoted pieces before the first semicolon outside of quotes, put together.
fn pieces(definition: &str) -> String {
    let (mut joined, mut quote) = (String::new(), None);
    let mut letters = definition.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (None, ';') => break,
            (None, '\'' | '"') => quote = Some(letter),
            (None, _) => {}
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), '\\') => joined.extend(letters.next()),
            (Some(_), letter) => joined.push(letter),
        }
    }
    joined
}

/// The quoted text of a line that has directives: the others are names of files.
fn piece_with_directives(line: &str) -> String {
    let (mut found, mut piece, mut quote) = (String::new(), String::new(), None);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (None, _) => {}
            (Some(open), letter) if letter == open => {
                quote = None;
                let read = std::mem::take(&mut piece);
                found = if read.contains('%') { read } else { found };
            }
            (Some(_), '\\') => piece.extend(letters.next()),
            (Some(_), letter) => piece.push(letter),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formats_of_a_configuration_are_found() {
        let nginx = "http {\n  # log_format old '$remote_addr';\n  log_format main '$remote_addr - $remote_user [$time_local] '\n  \
                     '\"$request\" $status ';\n  log_format short \"$status\";\n}";
        let whole =
            LogPattern::of("$remote_addr - $remote_user [$time_local] \"$request\" $status ").unwrap();
        assert_eq!(of_nginx(nginx), [whole]);
        let apache = "ErrorLog \"/var/log/a\"\nLogFormat \"%h %l %u %t \\\"%r\\\" %>s %b\" common\n  \
                      customlog \"/var/log/access.log\" '%a %t \"%r\" %s'";
        let formats = ["%h %l %u %t \"%r\" %>s %b", "%a %t \"%r\" %s"];
        assert_eq!(of_apache(apache), formats.map(|format| LogPattern::of(format).unwrap()));
    }
}
