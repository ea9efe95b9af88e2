//! The address of the client: `set_real_ip_from`, `real_ip_header` and `real_ip_recursive` as `[client]`.

use http::HeaderName;

use super::reader::NginxReader;
use crate::cli::import::imported::prefix;

pub(super) fn read(reader: &mut NginxReader<'_>) {
    let all = reader.file.all.iter().enumerate();
    for (at, directive) in all {
        let word = directive.words.first().map_or("", String::as_str);
        match &*directive.name {
            "set_real_ip_from" => read_proxy(reader, at, word),
            "real_ip_header" => read_header(reader, at, word),
            "real_ip_recursive" => match word {
                "on" => reader.seen[at] = true,
                _ => reader.lose(at, RECURSIVE),
            },
            _ => {}
        }
    }
}

fn read_proxy(reader: &mut NginxReader<'_>, at: usize, word: &str) {
    let entry = if word == "unix:" { Some(word.to_owned()) } else { prefix(word) };
    let Some(entry) = entry else {
        return reader.lose(at, "client.trust takes prefixes and networks: write the address of this proxy");
    };
    reader.seen[at] = true;
    if !reader.out.trust.contains(&entry) {
        reader.out.trust.push(entry);
    }
}

fn read_header(reader: &mut NginxReader<'_>, at: usize, word: &str) {
    match word {
        "proxy_protocol" => reader.out.has_proxy_protocol = true,
        _ if word.parse::<HeaderName>().is_ok() => reader.out.header = Some(word.to_owned()),
        _ => return reader.lose(at, "not the name of a header"),
    }
    reader.seen[at] = true;
}

const RECURSIVE: &str =
    "nginx took the last address; the client is now the last one that client.trust does not name";
