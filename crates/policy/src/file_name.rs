//! How servers interpret the name of a file in a path: scripts, the index of a directory, formats.
//!
//! It knows names only, not whether such a file exists. [`path_info`](super::path_info) derives further paths from
//! them, and [`matcher`](super::matcher) compares segments.

/// A script's name without its extension.
pub(super) fn script_stem(segment: &[u8]) -> Option<&[u8]> {
    stem(segment, is_script)
}

/// A name without an extension that selects a format, as in `/users/sign_in.json`.
pub(super) fn format_stem(segment: &[u8]) -> Option<&[u8]> {
    stem(segment, is_format)
}

/// Whether a server could pass the segments after this one to it as its path (`PATH_INFO`).
pub(super) fn takes_a_path(segment: &[u8]) -> bool {
    script_stem(segment).is_some() || segment.eq_ignore_ascii_case(INDEX)
}

/// Whether a server could respond with this file to a request for its directory.
///
/// `index` alone is the index for negotiation by name (MultiViews) and for the routers of many frameworks.
pub(super) fn is_index(segment: &[u8]) -> bool {
    let is_short = || segment.contains(&b'~') && LONG_INDEXES.iter().any(|long| is_short_name(segment, long));
    is_index_by(segment, &SERVED_FIRST) || is_short()
}

/// Whether a server could be configured to use this name as a directory's index.
///
/// More names than in [`is_index`]: in a pattern such a name is a hint, in a request it is none.
pub(super) fn could_be_index(segment: &[u8]) -> bool {
    is_index_by(segment, &SERVED_FIRST) || is_index_by(segment, &SET_UP_AS_INDEX)
}

fn is_index_by(segment: &[u8], names: &[&str]) -> bool {
    let stem = script_stem(segment).or_else(|| format_stem(segment));
    let is = |name: &&str| stem.is_some_and(|stem| stem.eq_ignore_ascii_case(name.as_bytes()));
    segment.eq_ignore_ascii_case(INDEX) || names.iter().any(is)
}

/// Whether a segment is a short name of Windows for a long one: `SIGN-I~1.ASP` is the first file that starts with
/// `SIGN-I`.
pub(super) fn is_short_name(segment: &[u8], long: &[u8]) -> bool {
    // The tilde is no further than the length of the name.
    let head = &segment[..segment.len().min(long.len() + 1)];
    let Some(tilde) = head.iter().position(|&byte| byte == b'~') else { return false };
    let (start, rest) = segment.split_at(tilde);
    let long: Vec<u8> = long.iter().copied().filter(|&b| b != b' ').collect();
    rest.get(1).is_some_and(u8::is_ascii_digit)
        && !start.is_empty()
        && long.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

fn stem(segment: &[u8], is_known: impl Fn(&[u8]) -> bool) -> Option<&[u8]> {
    // Only the last bytes are read: a segment may be long.
    let end = segment.len().saturating_sub(MAX_EXTENSION_LEN + 1);
    let dot = end + segment[end..].iter().rposition(|&byte| byte == b'.')?;
    if dot == 0 {
        return None;
    }
    let mut lower = [0; MAX_EXTENSION_LEN];
    let extension = lower.get_mut(..segment.len() - dot - 1)?;
    extension.copy_from_slice(&segment[dot + 1..]);
    extension.make_ascii_lowercase();
    is_known(extension).then(|| &segment[..dot])
}

// Patterns instead of lists: a path may have thousands of segments, and the compiler makes a search tree of a pattern.
#[rustfmt::skip]
fn is_script(extension: &[u8]) -> bool {
    matches!(
        extension,
        b"php" | b"php3" | b"php4" | b"php5" | b"php7" | b"php8" | b"phtml" | b"phar" | b"cgi" | b"fcgi" | b"pl"
            | b"plx" | b"perl" | b"py" | b"wsgi" | b"rb" | b"lua" | b"asp" | b"aspx" | b"ashx" | b"asmx" | b"svc"
            | b"axd" | b"dll" | b"exe" | b"owa" | b"jsp" | b"jspx" | b"jspa" | b"jsf" | b"faces" | b"do" | b"action"
            | b"cfm" | b"cfml" | b"xhtml" | b"shtml" | b"shtm" | b"html" | b"htm" | b"nsf"
    )
}

/// The formats that Rails, Grails, Spring, Symfony, Laravel and Django REST framework accept after a route, if
/// configured.
#[rustfmt::skip]
fn is_format(extension: &[u8]) -> bool {
    matches!(
        extension,
        b"json" | b"xml" | b"html" | b"htm" | b"xhtml" | b"js" | b"jsonp" | b"txt" | b"text" | b"csv" | b"tsv"
            | b"yaml" | b"yml" | b"rss" | b"atom" | b"api" | b"msgpack" | b"pdf"
    )
}

const MAX_EXTENSION_LEN: usize = 8;

const INDEX: &[u8] = b"index";

/// The default indexes of Apache, nginx, lighttpd, IIS, Tomcat and Jetty.
const SERVED_FIRST: [&str; 2] = ["index", "default"];

/// The default indexes with a short name on Windows.
const LONG_INDEXES: [&[u8]; 2] = [b"default.aspx", b"index.html"];

/// Further names in `DirectoryIndex` of hosting panels and `welcome-file` of Java applications.
const SET_UP_AS_INDEX: [&str; 4] = ["home", "welcome", "main", "start"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_known_by_its_extension() {
        assert_eq!(script_stem(b"login.php"), Some(&b"login"[..]));
        assert_eq!(script_stem(b"a.b.ASPX"), Some(&b"a.b"[..]));
        for name in ["login", ".php", "login.phpx", "login.css", "php"] {
            assert_eq!(script_stem(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn an_index_is_what_servers_look_for_in_a_directory() {
        let indexes = [
            "index.php",
            "INDEX.HTML",
            "index.cgi",
            "index.jsp",
            "index.txt",
            "Default.aspx",
            "default.asp",
            "default.htm",
            "index",
            "index.json",
            "DEFAUL~1.ASP",
            "index~1.htm",
        ];
        for name in indexes {
            assert!(is_index(name.as_bytes()), "{name}");
        }
        for name in ["home.html", "welcome.jsp", "main.php"] {
            assert!(!is_index(name.as_bytes()) && could_be_index(name.as_bytes()), "{name}");
        }
        for name in ["default", "home", "login.php", "index.css", "indexes.php", "my.index.php"] {
            assert!(!could_be_index(name.as_bytes()), "{name}");
        }
    }
}
