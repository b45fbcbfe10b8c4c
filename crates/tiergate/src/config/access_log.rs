//! `[access_log]`: where requests are logged.

use super::kind::Choice;
use super::kind::Text;
use super::log_line::Pattern;
use super::section::{Kind, section};
use super::values::{FileName, whole};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

const LINE: Text<Arc<Pattern>> = Text {
    expected: "a line of text with variables",
    schema: || json!({ "examples": ["$remote_addr [$time_local] \"$request\" $status $class"] }),
    parse: |text| Pattern::parse(text).map(Arc::new).map_err(Some),
};

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
        /// A format of your own, in place of `format`: text with variables such as `$remote_addr` or `%ci`: [a format of your own](observability.md#a-format-of-your-own).
        line: Option<Arc<Pattern>> = LINE.optional("as `format` says");
        /// Of so many requests in turn that are refused, only the first has a line; how many have none is counted. Requests that are admitted
        /// always have theirs.
        refused_one_in: u32 = whole(1..=1_000_000).or(1);
        /// Lines a second at most for what never became a request: malformed heads, failed handshakes. How many have none is counted, and said in
        /// the next line. 0: none.
        /// Why: such a line costs an attacker a few bytes; a flood of them must not fill the disk.
        bad_per_second: u32 = whole(0..=1_000_000).or(BAD_PER_SECOND);
    }
}

/// What [`AccessLog::bad_per_second`] is by default.
const BAD_PER_SECOND: u32 = 20;

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
        let format = match self.line {
            Some(_) => "a format of its own".to_owned(),
            None => format!("{:?}", self.format).to_lowercase(),
        };
        let mut words = format!("{} ({format})", path.as_deref().unwrap_or("standard output"));
        if self.refused_one_in > 1 {
            words += &format!(", one refused request in {}", self.refused_one_in);
        }
        if self.bad_per_second != BAD_PER_SECOND {
            words += &format!(", {} lines a second of what is no request", self.bad_per_second);
        }
        words
    }
}
