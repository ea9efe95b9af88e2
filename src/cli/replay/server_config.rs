//! The log formats that a configuration of nginx or Apache defines. Other files that it includes are not read.

use crate::replay::line::LogPattern;

/// `log_format NAME [escape=...] 'piece' 'piece' ...;`, without those in which a replay lacks something.
pub(super) fn of_nginx(text: &str) -> Vec<LogPattern> {
    let plain: String =
        text.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n");
    let definitions = plain.split("log_format").skip(1);
    definitions.filter_map(|definition| LogPattern::of(&quoted(definition).concat()).ok()).collect()
}

/// `LogFormat "format" [NAME]`, and `CustomLog FILE "format"`.
pub(super) fn of_apache(text: &str) -> Vec<LogPattern> {
    let is_format = |line: &&str| ["logformat", "customlog"].iter().any(|word| starts_with(line, word));
    let lines = text.lines().map(str::trim).filter(is_format);
    // The other quoted texts are names of files.
    let formats = lines.filter_map(|line| quoted(line).into_iter().find(|text| text.contains('%')));
    formats.filter_map(|format| LogPattern::of(&format).ok()).collect()
}

fn starts_with(line: &str, word: &str) -> bool {
    line.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// The quoted texts before the first semicolon outside of quotes.
fn quoted(text: &str) -> Vec<String> {
    let (mut texts, mut quote) = (Vec::<String>::new(), None);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter, texts.last_mut()) {
            (None, ';', _) => break,
            (None, '\'' | '"', _) => {
                quote = Some(letter);
                texts.push(String::new());
            }
            (Some(open), letter, _) if letter == open => quote = None,
            (Some(_), '\\', Some(latest)) => latest.extend(letters.next()),
            (Some(_), letter, Some(latest)) => latest.push(letter),
            _ => {}
        }
    }
    texts
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
