//! Why a report says nothing.

/// Longest report, in bytes of the header's value: a hundred named metrics.
pub const LEN_MAX: usize = 4096;

/// Why a report says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is longer than [`LEN_MAX`].
    TooLong,
    /// It is in no form that is known.
    Malformed,
    /// The metric is no finite number.
    NoNumber,
    /// There are several reports, or the metric is in it several times.
    Ambiguous,
}

impl Unreadable {
    /// In words, as the end of a sentence that begins with the report.
    pub const fn words(self) -> &'static str {
        match self {
            Unreadable::TooLong => "is longer than 4096 bytes",
            Unreadable::Malformed => "is in none of the forms TEXT, JSON and BIN",
            Unreadable::NoNumber => "has something else than a finite number",
            Unreadable::Ambiguous => "has it several times",
        }
    }
}
