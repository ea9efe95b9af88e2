//! `listen`, `proxy_pass` and `upstream` as addresses.

use super::reader::NginxReader;
use crate::cli::import::imported::upstream;

/// The addresses of a server to listen at, without TLS.
pub(super) fn read_listens(reader: &mut NginxReader<'_>, server: Option<usize>) {
    let file = reader.file;
    for at in file.named(server, "listen") {
        let words = &file.all[at].words;
        let has = |wanted: &str| words.iter().any(|word| word == wanted);
        if has("ssl") || has("quic") {
            reader.lose(at, "write listen = \"https://[::]:443\", and the certificate into [tls]");
            continue;
        }
        reader.out.has_proxy_protocol |= has("proxy_protocol");
        let address = words.first().map_or("", String::as_str);
        match reader.out.add_listen(listen_url(address)) {
            true => reader.seen[at] = true,
            false => reader.lose(at, "not an address to listen at"),
        }
    }
}

/// Without an address nginx takes IPv4 only. The gate takes both, because it can.
fn listen_url(address: &str) -> String {
    let is_port = !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_digit());
    match address.rsplit_once(':') {
        _ if address.starts_with("unix:") => address.to_owned(),
        _ if is_port => format!("http://[::]:{address}"),
        Some(("*" | "0.0.0.0", port)) => format!("http://[::]:{port}"),
        Some(("localhost", port)) => format!("http://127.0.0.1:{port}"),
        Some((_, port)) if !port.contains(']') => format!("http://{address}"),
        _ => format!("http://{address}:80"),
    }
}

/// Where a location forwards to; none if it does not, or not by HTTP.
pub(super) fn upstream_of(reader: &mut NginxReader<'_>, block: Option<usize>) -> Vec<String> {
    let Some(&at) = reader.file.children(block).iter().find(|&&at| reader.file.all[at].name == "proxy_pass")
    else {
        return Vec::new();
    };
    let target = reader.file.all[at].words.first().cloned().unwrap_or_default();
    if let Some(socket) = target.strip_prefix("http://unix:") {
        let path = socket.split(':').next().unwrap_or(socket);
        return checked(reader, at, vec![format!("unix:{path}")]);
    }
    let Some((scheme, rest)) = target.split_once("://") else {
        reader.lose(at, "not a URL");
        return Vec::new();
    };
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    if !matches!(path, "" | "/") {
        reader.lose(at, "tollgate forwards paths as they are: the application has to take them so");
    } else if path == "/" && !is_at_the_root(reader, block) {
        reader.lose(at, "nginx cut the location's path off: tollgate forwards paths as they are");
    }
    let servers = servers_of(reader, scheme, host);
    checked(reader, at, servers)
}

/// Whether a slash behind the host changes nothing.
fn is_at_the_root(reader: &NginxReader<'_>, block: Option<usize>) -> bool {
    block.is_none_or(|at| reader.file.all[at].words.last().is_some_and(|path| path == "/"))
}

/// The servers of an `upstream`, or the host itself.
fn servers_of(reader: &mut NginxReader<'_>, scheme: &str, host: &str) -> Vec<String> {
    let file = reader.file;
    let is_group = |at: &usize| file.all[*at].name == "upstream" && file.all[*at].words == [host];
    let Some(group) = (0..file.all.len()).find(is_group) else {
        return vec![format!("{scheme}://{host}")];
    };
    let mut servers = Vec::new();
    for &at in file.children(Some(group)) {
        let directive = &file.all[at];
        match (&*directive.name, &directive.words[..]) {
            ("server", [_, parameters @ ..])
                if parameters.iter().any(|word| word == "backup" || word == "down") =>
            {
                reader.lose(at, "of several upstreams the least busy one is used: none is a reserve");
            }
            ("server", [address, ..]) => {
                let url = match address.strip_prefix("unix:") {
                    Some(_) => address.clone(),
                    None => format!("{scheme}://{address}"),
                };
                if !servers.contains(&url) {
                    servers.push(url);
                }
            }
            _ => reader.lose(at, "of several upstreams the least busy one is used"),
        }
    }
    servers
}

fn checked(reader: &mut NginxReader<'_>, at: usize, urls: Vec<String>) -> Vec<String> {
    let count = urls.len();
    let valid: Vec<String> = urls.into_iter().filter_map(upstream).collect();
    match valid.len() == count && count > 0 {
        true => reader.seen[at] = true,
        false => reader.lose(at, "not an address that the gate can know: write `upstream`"),
    }
    valid
}
