//! A file in the place of the new one. It stays, unless nobody has edited it since the package brought it, `--force` is
//! given, or a person on a terminal agrees.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use super::{InitArgs, questions, write_new};

/// Whether the new file takes the place of another; decided before anything else is asked.
///
/// # Errors
/// If the other file has to stay.
pub(super) fn is_replaced(arguments: &InitArgs) -> anyhow::Result<bool> {
    let path = &arguments.file;
    // A link that leads nowhere is there, too.
    if fs::symlink_metadata(path).is_err() {
        return Ok(false);
    }
    if arguments.force || is_untouched(path, Path::new(PACKAGED_COPY)) {
        return Ok(true);
    }
    let name = path.display();
    if questions::may_ask(arguments) && questions::agrees(&format!("{name} exists already. Replace it?"))? {
        return Ok(true);
    }
    bail!(
        "{name} exists already and is left as it is; name another file, or - to print it, or replace it with --force"
    )
}

/// Puts the text into the place of the file in one step, with the same permissions. A link is replaced, and its target
/// stays.
pub(super) fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = Path::new(&new);
    // One that an earlier attempt left behind.
    let _ = fs::remove_file(new);
    write_new(new, text)?;
    let permissions = fs::metadata(path).map(|old| old.permissions());
    let kept = permissions.map_or(Ok(()), |old| fs::set_permissions(new, old));
    kept.and_then(|()| fs::rename(new, path)).with_context(|| format!("cannot replace {}", path.display()))
}

fn is_untouched(path: &Path, packaged: &Path) -> bool {
    matches!((fs::read(path), fs::read(packaged)), (Ok(text), Ok(copy)) if text == copy)
}

/// The package brings its first configuration twice: here nobody edits it.
const PACKAGED_COPY: &str = "/usr/share/tollgate/config.toml";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_untouched_while_it_equals_the_packages_copy() {
        let directory = std::env::temp_dir().join(format!("tollgate-untouched-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let [file, copy] = ["config.toml", "copy.toml"].map(|name| directory.join(name));
        fs::write(&file, "listen = \"8080\"\n").unwrap();
        assert!(!is_untouched(&file, &copy), "without a package every file counts as edited");
        fs::write(&copy, "listen = \"8080\"\n").unwrap();
        assert!(is_untouched(&file, &copy));
        fs::write(&file, "listen = \"8081\"\n").unwrap();
        assert!(!is_untouched(&file, &copy));
        fs::remove_dir_all(directory).unwrap();
    }
}
