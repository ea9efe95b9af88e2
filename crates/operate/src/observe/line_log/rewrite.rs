//! Takes a person out of the files of a log: the one that is written, and those that logrotate made of it.
//!
//! A new file with the same owner, mode and time of writing replaces the old one at once, or nothing changes. Most of the present
//! file is copied while lines are added to it; for its end, and until the writer has the new file, lines wait in memory. Lines
//! that are not about the person stay byte for byte.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::LineLog;
use super::rotated::{is_surely_rotated, rotated_files};
use super::zstd::{ZstdFrames, ZstdWriter, is_zstd};
use crate::observe::traces::Traces;

/// Why a file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// It cannot be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Another file took its place meanwhile.
    #[error("it was rotated meanwhile: run the same again")]
    Moved,
    /// It is no regular file.
    #[error("it is no regular file")]
    NotRegular,
    /// It is compressed in another way.
    #[error("it is packed by {pack}: run `{unpack} {path}`, forget again, then run `{pack} {unpacked}`")]
    Compressed {
        /// What unpacks it.
        unpack: &'static str,
        /// What packs it.
        pack: &'static str,
        /// Its name, packed.
        path: String,
        /// Its name, unpacked.
        unpacked: String,
    },
}

impl RewriteError {
    fn compressed([unpack, pack, ending]: [&'static str; 3], path: &Path) -> Self {
        let path = path.display().to_string();
        let unpacked = path.strip_suffix(ending).unwrap_or(&path).to_owned();
        Self::Compressed { unpack, pack, path, unpacked }
    }
}

/// A file of a log, and which one it was when it was listed: a rotation gives its name to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// Its name.
    pub path: PathBuf,
    device: u64,
    inode: u64,
}

impl ListedFile {
    fn at(path: PathBuf) -> io::Result<Self> {
        let about = fs::metadata(&path)?;
        Ok(Self { path, device: about.dev(), inode: about.ino() })
    }
}

/// The rotated files of the log at this path, and the present one as the last.
///
/// # Errors
/// See [`RewriteError`].
pub fn listed_files(path: &Path) -> Result<Vec<ListedFile>, RewriteError> {
    let list = || {
        let rotated = rotated_files(path)?.into_iter().map(|(_, file)| file);
        rotated.chain([path.to_owned()]).map(ListedFile::at).collect::<io::Result<Vec<_>>>()
    };
    let listed = list()?;
    // Files may be renamed while they are listed.
    if list()? == listed { Ok(listed) } else { Err(RewriteError::Moved) }
}

/// Removes what a gate that was killed has left of rewriting files of the log at this path.
///
/// # Errors
/// If the directory cannot be read, or one of them cannot be removed.
pub fn remove_unfinished(path: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let directory = path.parent().filter(|directory| *directory != Path::new("")).unwrap_or(Path::new("."));
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let file = entry.file_name().to_string_lossy().into_owned();
        let of = file.strip_prefix('.').and_then(|file| file.strip_suffix(UNFINISHED));
        let rest = of.and_then(|of| of.strip_prefix(&name));
        if rest.is_some_and(|rest| rest.is_empty() || is_surely_rotated(rest)) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Takes the person out of this file, and returns the number of lines that named them; a dry run only counts. `writer` is the log
/// that writes the file, if it is the present one.
///
/// # Errors
/// See [`RewriteError`]; then the file is as it was.
pub fn rewrite(
    listed: &ListedFile,
    traces: &Traces,
    writer: Option<&LineLog>,
    is_dry_run: bool,
) -> Result<u64, RewriteError> {
    // The name of the log may be a link to a file with a date.
    let path = fs::canonicalize(&listed.path)?;
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut source = OpenOptions::new().read(true).custom_flags(flags).open(&path)?;
    let about = source.metadata()?;
    if !about.is_file() {
        return Err(RewriteError::NotRegular);
    }
    if (about.dev(), about.ino()) != (listed.device, listed.inode) {
        return Err(RewriteError::Moved);
    }
    match kind_of(&mut source)? {
        FileKind::Gzip if is_dry_run => {
            Ok(copy(BufReader::new(MultiGzDecoder::new(&source)), traces, io::sink())?.lines)
        }
        FileKind::Gzip => rewrite_gzip(&path, &source, traces),
        FileKind::Zstd if is_dry_run => {
            Ok(copy(BufReader::new(ZstdFrames::new(&source)), traces, io::sink())?.lines)
        }
        FileKind::Zstd => rewrite_zstd(&path, &source, traces),
        FileKind::Other(programs) => Err(RewriteError::compressed(programs, &listed.path)),
        FileKind::Text if is_dry_run => Ok(copy(BufReader::new(&source), traces, io::sink())?.lines),
        FileKind::Text => rewrite_text(&path, source, traces, writer),
    }
}

/// The text of the log at this path, which may have been packed.
///
/// # Errors
/// If it cannot be read, or is packed in another way than by gzip or zstd.
pub fn unpacked(mut source: File, path: &Path) -> io::Result<Box<dyn Read>> {
    Ok(match kind_of(&mut source)? {
        FileKind::Text => Box::new(source),
        FileKind::Gzip => Box::new(MultiGzDecoder::new(source)),
        FileKind::Zstd => Box::new(ZstdFrames::new(source)),
        FileKind::Other(programs) => return Err(io::Error::other(RewriteError::compressed(programs, path))),
    })
}

/// The file that is to replace another one; it is removed again if it does not.
struct NewFile {
    path: PathBuf,
    file: File,
}

impl NewFile {
    /// Next to the old file, with its owner and its mode.
    fn beside(path: &Path, old: &File) -> Result<Self, RewriteError> {
        let about = old.metadata()?;
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(UNFINISHED);
        let new = path.with_file_name(name);
        // One that a gate has left that was killed.
        let _ = fs::remove_file(&new);
        let file = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&new)?;
        let new = Self { path: new, file };
        let own = new.file.metadata()?;
        if (own.uid(), own.gid()) != (about.uid(), about.gid()) {
            fchown(&new.file, Some(about.uid()), Some(about.gid()))?;
        }
        new.file.set_permissions(fs::Permissions::from_mode(about.mode() & 0o7777))?;
        Ok(new)
    }

    /// Puts it in the place of the old file, which must still be there.
    fn replace(&self, path: &Path, old: &File) -> Result<(), RewriteError> {
        let about = old.metadata()?;
        let named = fs::symlink_metadata(path)?;
        if (named.dev(), named.ino()) != (about.dev(), about.ino()) {
            return Err(RewriteError::Moved);
        }
        self.file.set_modified(about.modified()?)?;
        self.file.sync_all()?;
        Ok(fs::rename(&self.path, path)?)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // Fails where it has replaced the old one.
        let _ = fs::remove_file(&self.path);
    }
}

fn rewrite_gzip(path: &Path, source: &File, traces: &Traces) -> Result<u64, RewriteError> {
    let new = NewFile::beside(path, source)?;
    let mut packed = GzEncoder::new(BufWriter::new(&new.file), Compression::default());
    let copied = copy(BufReader::new(MultiGzDecoder::new(source)), traces, &mut packed)?;
    packed.finish()?.flush()?;
    if copied.lines > 0 {
        new.replace(path, source)?;
    }
    Ok(copied.lines)
}

fn rewrite_zstd(path: &Path, source: &File, traces: &Traces) -> Result<u64, RewriteError> {
    let new = NewFile::beside(path, source)?;
    let mut packed = ZstdWriter::new(&new.file);
    let copied = copy(BufReader::new(ZstdFrames::new(source)), traces, &mut packed)?;
    packed.finish()?;
    if copied.lines > 0 {
        new.replace(path, source)?;
    }
    Ok(copied.lines)
}

fn rewrite_text(
    path: &Path,
    mut source: File,
    traces: &Traces,
    writer: Option<&LineLog>,
) -> Result<u64, RewriteError> {
    let new = NewFile::beside(path, &source)?;
    let mut done = Copied::default();
    // Whole lines only: the last one may be on its way.
    for _ in 0..ROUNDS {
        let rest = rest_of(&source, done)?;
        source.seek(SeekFrom::Start(done.bytes))?;
        let lines = BufReader::new((&source).take(rest));
        let copied = copy_whole_lines(lines, traces, &new.file, writer.is_none())?;
        done.add(copied);
        if copied.bytes < SHORT_REST {
            break;
        }
    }
    let Some(writer) = writer else {
        if done.lines > 0 {
            new.replace(path, &source)?;
        }
        return Ok(done.lines);
    };
    new.file.sync_data()?;
    let held = writer.hold();
    rest_of(&source, done)?;
    source.seek(SeekFrom::Start(done.bytes))?;
    done.add(copy(BufReader::new(&source), traces, &new.file)?);
    if done.lines > 0 {
        new.replace(path, &source)?;
        held.go_on_in(new.file.try_clone()?);
    }
    Ok(done.lines)
}

/// Bytes after those that were copied.
fn rest_of(source: &File, done: Copied) -> Result<u64, RewriteError> {
    source.metadata()?.len().checked_sub(done.bytes).ok_or(RewriteError::Moved)
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, Default)]
struct Copied {
    /// Bytes that were read.
    bytes: u64,
    /// Lines that named the person.
    lines: u64,
}

impl Copied {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.lines += other.lines;
    }
}

fn copy(text: impl BufRead, traces: &Traces, to: impl Write) -> io::Result<Copied> {
    copy_whole_lines(text, traces, to, true)
}

/// Copies lines without the person; a last one without its end only if `has_end`.
fn copy_whole_lines(
    mut text: impl BufRead,
    traces: &Traces,
    to: impl Write,
    has_end: bool,
) -> io::Result<Copied> {
    let (mut to, mut copied, mut line) = (BufWriter::new(to), Copied::default(), Vec::new());
    loop {
        line.clear();
        let read = text.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        if read == 0 || (!has_end && line.last() != Some(&b'\n') && (read as u64) < MAX_LINE) {
            break;
        }
        let cleaned = traces.cleaned(&line);
        copied.add(Copied { bytes: read as u64, lines: u64::from(cleaned.is_some()) });
        to.write_all(cleaned.as_deref().unwrap_or(&line))?;
    }
    to.flush()?;
    Ok(copied)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileKind {
    Text,
    Gzip,
    Zstd,
    /// Unpacked by the first of these programs, packed by the second, with this ending.
    Other([&'static str; 3]),
}

/// By its first bytes.
fn kind_of(file: &mut File) -> io::Result<FileKind> {
    let mut magic = Vec::with_capacity(4);
    Read::by_ref(file).take(4).read_to_end(&mut magic)?;
    file.rewind()?;
    Ok(match magic[..] {
        [0x1F, 0x8B, ..] => FileKind::Gzip,
        [0xFD, b'7', b'z', b'X'] => FileKind::Other(["unxz", "xz", ".xz"]),
        [b'B', b'Z', b'h', _] => FileKind::Other(["bunzip2", "bzip2", ".bz2"]),
        [a, b, c, d] if is_zstd([a, b, c, d]) => FileKind::Zstd,
        _ => FileKind::Text,
    })
}

/// The end of the name of a file that is to replace another one.
const UNFINISHED: &str = ".forgetting";
/// What was added to the present file is copied so often, until little is added meanwhile.
const ROUNDS: u32 = 8;
/// Bytes that are copied while lines wait.
const SHORT_REST: u64 = 256 * 1024;
/// Bytes of a line that is read at once; a longer one is read in parts.
pub const MAX_LINE: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::BucketOwner;
    use crate::observe::client_format::ClientFormatter;
    use crate::observe::settings::ClientsShown;
    use crate::policy::Policy;
    use crate::policy::attempt::Client;
    use crate::policy::key::PrefixLengths;

    fn traces() -> Traces {
        let clients = ClientFormatter::new(ClientsShown::Full, PrefixLengths::default());
        let person = Policy::new(vec![], vec![]).person(["ip:203.0.113.9"]).unwrap();
        let owner = BucketOwner::Client(Client::from_ip(person.addresses()[0]));
        Traces::of(&person, &[owner], &clients)
    }

    fn rewritten(path: &Path, is_dry_run: bool) -> Result<u64, RewriteError> {
        rewrite(&ListedFile::at(path.to_owned()).unwrap(), &traces(), None, is_dry_run)
    }

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("tollgate-rewrite-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        directory
    }

    #[test]
    fn a_file_is_replaced_whole_with_its_mode_and_its_time() {
        let directory = directory("whole");
        let path = directory.join("a.log.1");
        fs::write(&path, "203.0.113.9 one\n198.51.100.7 two\nthe end of 203.0.113.9").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
        let before = fs::metadata(&path).unwrap();
        assert_eq!(rewritten(&path, true).unwrap(), 2);
        assert_eq!(fs::metadata(&path).unwrap().ino(), before.ino(), "a dry run changes nothing");
        assert_eq!(rewritten(&path, false).unwrap(), 2);
        assert_eq!(fs::read_to_string(&path).unwrap(), "- one\n198.51.100.7 two\nthe end of -");
        let after = fs::metadata(&path).unwrap();
        assert_eq!((after.mode(), after.modified().unwrap()), (before.mode(), before.modified().unwrap()));
        assert_eq!(rewritten(&path, false).unwrap(), 0);
        assert_eq!(fs::metadata(&path).unwrap().ino(), after.ino(), "a file that names nobody stays");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_file_that_was_rotated_since_it_was_listed_stays_and_so_do_others_than_unfinished_ones() {
        let directory = directory("moved");
        let (path, rotated) = (directory.join("a.log"), directory.join("a.log.1"));
        fs::write(&path, "203.0.113.9 one\n").unwrap();
        fs::write(&rotated, "203.0.113.9 two\n").unwrap();
        let listed = listed_files(&path).unwrap();
        assert_eq!([&listed[0].path, &listed[1].path], [&rotated, &path]);
        fs::rename(&rotated, directory.join("a.log.2")).unwrap();
        fs::rename(&path, &rotated).unwrap();
        fs::write(&path, "").unwrap();
        for listed in &listed {
            assert!(matches!(rewrite(listed, &traces(), None, false), Err(RewriteError::Moved)));
        }
        assert_eq!(fs::read_to_string(&rotated).unwrap(), "203.0.113.9 one\n");
        for name in [".a.log.forgetting", ".a.log.3.gz.forgetting", ".a.logs.forgetting"] {
            fs::write(directory.join(name), "").unwrap();
        }
        remove_unfinished(&path).unwrap();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 4, "three files of the log and one of another");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_packed_file_is_packed_again_and_one_that_cannot_be_read_stays() {
        let directory = directory("packed");
        let path = directory.join("a.log.2.gz");
        let mut packed = GzEncoder::new(File::create(&path).unwrap(), Compression::default());
        packed.write_all(b"203.0.113.9 one\n198.51.100.7 two\n").unwrap();
        packed.finish().unwrap();
        assert_eq!(rewritten(&path, false).unwrap(), 1);
        let mut text = String::new();
        MultiGzDecoder::new(File::open(&path).unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "- one\n198.51.100.7 two\n");
        let zstd = directory.join("a.log.3.zst");
        let mut packed = ZstdWriter::new(File::create(&zstd).unwrap());
        packed.write_all(b"203.0.113.9 one\n198.51.100.7 two\n").unwrap();
        packed.finish().unwrap();
        assert_eq!([rewritten(&zstd, true).unwrap(), rewritten(&zstd, false).unwrap()], [1, 1]);
        let mut text = String::new();
        ZstdFrames::new(File::open(&zstd).unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "- one\n198.51.100.7 two\n");
        for (name, bytes, unpack, pack) in [
            ("a.log.4.xz", &b"\xFD7zXZ\0"[..], "unxz", "xz"),
            ("a.log.5.bz2", &b"BZh91AY&SY"[..], "bunzip2", "bzip2"),
        ] {
            let other = directory.join(name);
            fs::write(&other, bytes).unwrap();
            let why = rewritten(&other, false).unwrap_err().to_string();
            let (path, unpacked) = (other.display(), other.with_extension(""));
            let unpacked = unpacked.display();
            let run = format!("run `{unpack} {path}`, forget again, then run `{pack} {unpacked}`");
            assert_eq!(why, format!("it is packed by {pack}: {run}"));
            assert_eq!(fs::read(&other).unwrap(), bytes);
        }
        fs::remove_dir_all(directory).unwrap();
    }
}
