//! What else a path with a script in it may mean: the directory whose index the script is, and the path that the
//! script is handed.
//!
//! `/login/index.php` is `/login`, and `/index.php/login` is `/login` to the application behind `index.php`, the front
//! controller. A limit is charged for these as for any other [reading](super::canonical) of a path; nothing here decides
//! where a request goes. Which names are scripts says [`file_name`](super::file_name).

use std::borrow::Cow;
use std::ops::Range;

use smallvec::SmallVec;

use super::canonical::Reading;
use super::file_name::{is_index, takes_a_path};

/// The paths that a reading means beside itself; none for one without a script.
///
/// A server hands a path to one script, the first or the last that is there, so no more than two are looked at.
#[must_use]
pub fn readings(path: &[u8]) -> SmallVec<[Reading<'_>; 2]> {
    let mut all = SmallVec::new();
    let mut scripts = segments(path).filter(|segment| takes_a_path(name(path, segment)));
    let first = scripts.next();
    for script in first.into_iter().chain(scripts.last()) {
        let (directory, rest) = (&path[..script.start], &path[script.end..]);
        if is_index(name(path, &script)) {
            push(&mut all, Cow::Borrowed(or_root(directory)));
        }
        if !rest.is_empty() {
            for handed in [Cow::Borrowed(rest), Cow::Owned([directory, rest].concat())] {
                // `/index.php/login/index`: to routers that know controllers and actions it is their index as well.
                let directory = without_index(&handed);
                push(&mut all, handed);
                directory.into_iter().for_each(|directory| push(&mut all, directory));
            }
        }
    }
    all
}

fn without_index<'a>(path: &Reading<'a>) -> Option<Reading<'a>> {
    let index = segments(path).filter(|segment| is_index(name(path, segment))).last()?;
    Some(match path {
        Cow::Borrowed(path) => Cow::Borrowed(or_root(&path[..index.start])),
        Cow::Owned(path) => Cow::Owned(or_root(&path[..index.start]).to_vec()),
    })
}

fn or_root(path: &[u8]) -> &[u8] {
    if path.is_empty() { b"/" } else { path }
}

fn push<'a>(all: &mut SmallVec<[Reading<'a>; 2]>, path: Reading<'a>) {
    if !all.contains(&path) {
        all.push(path);
    }
}

/// Where the segments stand, each with the slash before it.
fn segments(path: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from;
        let length = path.get(start + 1..)?.iter().position(|&byte| byte == b'/');
        from = length.map_or(path.len(), |length| start + 1 + length);
        (start < path.len()).then_some(start..from)
    })
}

fn name<'a>(path: &'a [u8], segment: &Range<usize>) -> &'a [u8] {
    &path[segment.start + 1..segment.end]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(path: &str) -> Vec<String> {
        readings(path.as_bytes()).iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
    }

    #[test]
    fn a_path_without_a_script_means_nothing_else() {
        for path in ["/", "/login", "/a/b/c.css", "/indexes", "/login.json"] {
            assert!(texts(path).is_empty(), "{path}");
        }
    }

    #[test]
    fn an_index_is_its_directory_and_what_follows_a_script_is_a_path() {
        for (path, wanted) in [
            ("/login/index.php", &["/login"][..]),
            ("/index.php", &["/"]),
            ("/index", &["/"]),
            ("/login.php", &[]),
            ("/index.php/login", &["/", "/login"]),
            ("/app_dev.php/login", &["/login"]),
            ("/a/app.php/login", &["/login", "/a/login"]),
            ("/index.php/login/index", &["/", "/login/index", "/login", "/index.php/login"]),
            (
                "/a/index.php/b/index.php",
                &["/a", "/b/index.php", "/b", "/a/b/index.php", "/a/b", "/a/index.php/b"],
            ),
        ] {
            assert_eq!(texts(path), wanted, "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_path_means_few_others_and_each_is_a_path(tail in "(/(a|index|[.]php|x[.]php|default[.]aspx)){0,9}") {
            let path = if tail.is_empty() { "/".to_owned() } else { tail };
            let all = texts(&path);
            prop_assert!(all.len() <= 10, "{all:?}");
            prop_assert!(all.iter().all(|path| path.starts_with('/') && !path.contains("//")), "{all:?}");
        }
    }
}
