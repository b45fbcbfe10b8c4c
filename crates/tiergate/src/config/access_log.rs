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
        /// `"json"`: one object a line; `"common"` and `"combined"`: those formats of Apache and nginx; `"extended"`: combined, with Tiergate's fields
        /// behind it.
        format: LogFormat = Choice(&[
            ("json", LogFormat::Json),
            ("common", LogFormat::Common),
            ("combined", LogFormat::Combined),
            ("extended", LogFormat::Extended),
        ]).or("json");
    }
}

/// Format of an access log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// The common log format, and nothing else.
    Common,
    /// Apache's combined format, and nothing else.
    Combined,
    /// The same with Tiergate's fields appended.
    Extended,
}

impl AccessLog {
    /// For `tiergate check`.
    pub(crate) fn words(&self) -> String {
        let path = self.path.as_ref().map(|path| path.display().to_string());
        let format = format!("{:?}", self.format).to_lowercase();
        format!("{} ({format})", path.as_deref().unwrap_or("standard output"))
    }
}
