//! Which of a target's copies makes room for another one.

/// Where a new copy of a target goes that has as many as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// In place of this one.
    InPlaceOf(usize),
    /// Nowhere: each of the others is in use.
    None,
}

/// Where a new copy goes, beside copies that have been asked for so often, the oldest first. None of them may be too old to be served. O(n).
///
/// The least asked for makes room, but only if it was never asked for: else a client could flush every copy of a page with a few requests
/// that differ in a field that the page varies by.
pub fn room(asked_for: impl IntoIterator<Item = u32>) -> Room {
    // Of several the first, which is the oldest.
    match asked_for.into_iter().enumerate().min_by_key(|(_, hits)| *hits) {
        Some((place, 0)) => Room::InPlaceOf(place),
        _ => Room::None,
    }
}
