//! Files that are read at the start and again by every reload: the policy, and what it names.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Whether what is no file may be read in the place of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streams {
    /// A device, or a pipe without a name, such as what a shell makes of `<(…)`: its other end is open.
    Taken,
    /// Nothing but files.
    Refused,
}

/// Opens what is to be read.
///
/// # Errors
/// When it cannot be opened, or is a pipe with a name: nobody may write to that, and a reload would wait for ever. So would it for a device, and some
/// never end.
pub(crate) fn open(path: &Path, streams: Streams) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    let what = match () {
        // That a directory cannot be read is said when it is.
        () if kind.is_file() || kind.is_dir() => return File::open(path),
        () if kind.is_socket() => "a socket",
        () if kind.is_fifo() && (streams == Streams::Refused || has_name(path)) => "a pipe",
        () if streams == Streams::Refused => "a device",
        () => return File::open(path),
    };
    Err(io::Error::other(format!("it is {what}, and must be a file")))
}

/// Whether a pipe lies in a file system: of another there is only a link to something like `pipe:[4711]`.
fn has_name(pipe: &Path) -> bool {
    fs::canonicalize(pipe).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixListener;

    #[test]
    fn pipes_that_nobody_may_write_to_are_never_read_and_streams_only_where_they_may() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let _socket = UnixListener::bind(path("socket")).expect("our own folder");
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RUSR, 0).expect("our own folder");
        fs::write(path("file"), "text").expect("our own folder");
        let (unnamed, _other_end) = io::pipe().expect("descriptors are left");
        let unnamed = format!("/proc/self/fd/{}", unnamed.as_raw_fd()).into();
        for (path, taken, refused) in [
            (path("file"), "", ""),
            (folder.path().to_owned(), "", ""),
            (path("pipe"), "it is a pipe, and must be a file", "it is a pipe, and must be a file"),
            (unnamed, "", "it is a pipe, and must be a file"),
            ("/dev/null".into(), "", "it is a device, and must be a file"),
            (
                path("socket"),
                "it is a socket, and must be a file",
                "it is a socket, and must be a file",
            ),
        ] {
            for (streams, expected) in [(Streams::Taken, taken), (Streams::Refused, refused)] {
                let said = open(&path, streams).err().map(|it| it.to_string());
                assert_eq!(said.unwrap_or_default(), expected, "{path:?} {streams:?}");
            }
        }
    }
}
