//! What becomes of the content of a file.

use serde::{Deserialize, Serialize};

/// What is served in place of a file's content.
#[derive(Debug)]
pub(super) enum Answer {
    /// Other content.
    New(Vec<u8>, Page),
    /// The same, for this reason.
    Original(Why),
}

/// What was changed in a page; of other kinds all are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Page {
    /// Embedded objects in the original, of a page that was changed: images, media, frames, scripts and style sheets with an address.
    pub(super) objects: u64,
    /// Of these, how many there are no more.
    pub(super) fewer: u64,
    /// Images that load once they are near the visible part.
    pub(super) lazy: u64,
}

/// Why content is served as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Why {
    /// It is of a kind that is copied.
    Other,
    /// The new content would not have been smaller.
    NotSmaller,
    /// Nothing in it has to be changed.
    Unchanged,
    /// An animation, and animations are to stay.
    Animated,
    /// Its writer has no lossy compression, and the image is not wider than asked.
    Lossless,
    /// Longer than the bound.
    TooLong,
    /// More pixels than the bound, or than the memory holds.
    TooManyPixels,
    /// Its content is not what its name says.
    NotItsType,
    /// It cannot be decoded, for this reason.
    Broken(String),
    /// Its colours are by a profile that would be lost.
    Profile,
}

impl Why {
    /// Whether the file itself needs attention.
    pub(super) fn is_reported(&self) -> bool {
        match self {
            Why::TooLong | Why::TooManyPixels | Why::NotItsType | Why::Broken(_) => true,
            Why::Other | Why::NotSmaller | Why::Unchanged => false,
            Why::Animated | Why::Lossless | Why::Profile => false,
        }
    }

    /// In words.
    pub(super) fn words(&self) -> String {
        let words = match self {
            Why::Other => "not an image nor HTML",
            Why::NotSmaller => "recompressed it would not be smaller",
            Why::Unchanged => "nothing in it to leave out",
            Why::Animated => "an animation (--still keeps its first frame)",
            Why::Lossless => {
                "not wider than --width-max, and only lossless compression can be written"
            }
            Why::TooLong => "longer than --file-max",
            Why::TooManyPixels => "more pixels than --pixels-max or --memory-max allow",
            Why::NotItsType => "its content is not what its name says",
            Why::Broken(why) => return format!("cannot be decoded: {why}"),
            Why::Profile => "it has a colour profile that could not be kept",
        };
        words.to_owned()
    }
}
