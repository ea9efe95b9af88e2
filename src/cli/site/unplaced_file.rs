//! A file next to its place: it is complete before anyone can read it there, or it is gone.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

/// A file that is complete and not in its place yet. It is removed unless it is put there.
#[derive(Debug)]
pub(super) struct UnplacedFile {
    at: PathBuf,
    is_moved: bool,
}

impl UnplacedFile {
    /// Writes it with the owner and the permissions of `model`, because the gate's user has to read it as well.
    ///
    /// # Errors
    /// If it cannot be written, or is there already: another command is writing it, or was ended while it did.
    pub(super) fn write(at: PathBuf, text: &str, model: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&at)?;
        let unplaced = Self { at, is_moved: false };
        let (wanted, own) = (fs::metadata(model)?, file.metadata()?);
        if (wanted.uid(), wanted.gid()) != (own.uid(), own.gid()) {
            fchown(&file, Some(wanted.uid()), Some(wanted.gid()))?;
        }
        file.set_permissions(wanted.permissions())?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        Ok(unplaced)
    }

    /// Puts it into the place of another file.
    ///
    /// # Errors
    /// If it cannot be moved there.
    pub(super) fn replace(mut self, place: &Path) -> io::Result<()> {
        fs::rename(&self.at, place)?;
        self.is_moved = true;
        Ok(())
    }

    /// Puts it where no file is.
    ///
    /// # Errors
    /// If there is one, also if it came in the meantime.
    pub(super) fn put(self, place: &Path) -> io::Result<()> {
        // `rename` would replace a file that is there.
        fs::hard_link(&self.at, place)
    }
}

impl Drop for UnplacedFile {
    fn drop(&mut self) {
        if !self.is_moved {
            // Nobody reads it under this name, whatever happens.
            let _ = fs::remove_file(&self.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_came_in_the_meantime_stays_and_nothing_is_left_behind() {
        let directory = std::env::temp_dir().join(format!("tollgate-unplaced-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let [model, at, place] = ["model", ".new", "place"].map(|name| directory.join(name));
        fs::write(&model, "").unwrap();
        let unplaced = UnplacedFile::write(at.clone(), "mine", &model).unwrap();
        assert!(UnplacedFile::write(at.clone(), "another", &model).is_err(), "two do not write it at once");
        fs::write(&place, "theirs").unwrap();
        assert_eq!(unplaced.put(&place).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!((fs::read_to_string(&place).unwrap(), at.exists()), ("theirs".to_owned(), false));
        let unplaced = UnplacedFile::write(at.clone(), "mine", &model).unwrap();
        unplaced.replace(&place).unwrap();
        assert_eq!((fs::read_to_string(&place).unwrap(), at.exists()), ("mine".to_owned(), false));
        fs::remove_dir_all(directory).unwrap();
    }
}
