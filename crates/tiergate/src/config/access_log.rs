//! `[access_log]`: where requests are logged.

use super::kind::Choice;
use super::section::{Kind, section};
use super::values::FileName;
use std::path::PathBuf;

section! {
    /// Where requests are logged.
    #[derive(PartialEq, Eq)]
    pub struct AccessLog {
        /// The file.
        path: Option<PathBuf> = FileName.optional("standard output");
        /// `"json"`: one object a line; `"combined"`: Apache's combined format with Tiergate's fields
        /// appended.
        format: LogFormat =
            Choice(&[("json", LogFormat::Json), ("combined", LogFormat::Combined)]).or("json");
    }
}

/// Format of an access log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// Apache's combined format, with Tiergate's fields appended.
    Combined,
}

impl AccessLog {
    /// For `tiergate check`.
    pub(crate) fn words(&self) -> String {
        let path = self.path.as_ref().map(|path| path.display().to_string());
        let format = format!("{:?}", self.format).to_lowercase();
        format!("{} ({format})", path.as_deref().unwrap_or("standard output"))
    }
}
