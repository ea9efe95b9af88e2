//! Further meanings of a path with a script in it: the directory whose index the script is, and the path that the
//! script receives (`PATH_INFO`).
//!
//! `/login/index.php` is `/login`, and `/index.php/login` is `/login` to the application behind `index.php`, the front
//! controller. A limit is charged for these as for any other [reading](super::canonical) of a path; nothing here
//! decides where a request goes. `file_name` knows which names are scripts.

use smallvec::SmallVec;

use super::file_name::{is_index, takes_a_path};

/// Calls `callback` with the segments of each further path that a reading, split into segments, may mean; some come
/// more than once. A path without a script has none.
///
/// A server passes a path to one script, the first or the last of the path, so only these two are considered.
pub fn for_each(reading: &[&[u8]], mut callback: impl FnMut(&[&[u8]])) {
    let mut scripts = (0..reading.len()).filter(|&at| takes_a_path(reading[at]));
    let first = scripts.next();
    for script in first.into_iter().chain(scripts.next_back()) {
        let (directory, rest) = (&reading[..script], &reading[script + 1..]);
        if is_index(reading[script]) {
            callback(directory);
        }
        if !rest.is_empty() {
            let beside: SmallVec<[&[u8]; 16]> = directory.iter().chain(rest).copied().collect();
            for path in [rest, &beside] {
                callback(path);
                // `/index.php/login/index`: routers with controllers and actions have indexes, too.
                if let Some(index) = path.iter().rposition(|name| is_index(name)) {
                    callback(&path[..index]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::canonical::{joined, split};
    use super::*;

    fn texts(path: &str) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for_each(&split(path.as_bytes()), |segments| {
            let path = String::from_utf8(joined(segments)).unwrap();
            if !all.contains(&path) {
                all.push(path);
            }
        });
        all
    }

    #[test]
    fn a_path_without_a_script_means_nothing_else() {
        for path in ["/", "/login", "/a/b/c.css", "/indexes", "/login.json"] {
            assert!(texts(path).is_empty(), "{path}");
        }
    }

    #[test]
    fn an_index_is_its_directory_and_what_follows_a_script_is_a_path() {
        for (path, expected) in [
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
            assert_eq!(texts(path), expected, "{path}");
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
