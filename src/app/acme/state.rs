//! Files of keys: readable for the gate's user alone, and replaced as a whole.

use std::fs::{DirBuilder, File, OpenOptions, remove_file, rename};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Puts a file in place, with mode 0600 in a directory that is made with mode 0700.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let unfinished = path.with_extension("new");
    // One that a crash left behind may have been readable by others.
    let _ = remove_file(&unfinished);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    rename(&unfinished, path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_for_its_owner_alone_and_is_replaced_as_a_whole() {
        let folder = std::env::temp_dir().join(format!("tollgate-acme-{}", std::process::id()));
        let path = folder.join("authority").join("app.test.pem");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for text in ["old and long", "new"] {
            write(&path, text).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        }
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
