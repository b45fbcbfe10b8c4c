//! A file that does not answer, as on a server that is gone: a pipe without a name stands for it.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs;
use std::io::{PipeWriter, Write, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Its readers wait for as long as this is there.
pub struct Unanswering(PipeWriter);

impl Unanswering {
    /// Puts it in the place of a file.
    pub fn at(path: &Path) -> Self {
        let (_, writer) = pipe().expect("descriptors are left");
        let this = Unanswering(writer);
        let link = path.with_extension("link");
        symlink(this.place(), &link).expect("our own folder");
        fs::rename(link, path).expect("our own folder");
        this
    }

    /// Whether somebody reads it.
    pub fn is_read(&self) -> bool {
        let mut end = [PollFd::new(&self.0, PollFlags::OUT)];
        poll(&mut end, Some(&Timespec::default())).expect("our own pipe");
        // Without a reader, writing is an error.
        !end[0].revents().contains(PollFlags::ERR)
    }

    /// Has it answer at last.
    pub fn answer(mut self, text: &str) {
        self.0.write_all(text.as_bytes()).expect("a reader waits");
    }

    fn place(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}
