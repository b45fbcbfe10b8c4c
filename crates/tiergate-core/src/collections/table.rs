//! Tables that grow as their places are asked for: by id, mostly.

/// An entry of a table, which grows by defaults until it has it.
pub(crate) fn grown<T: Clone + Default>(table: &mut Vec<T>, place: usize) -> &mut T {
    if table.len() <= place {
        table.resize(place + 1, T::default());
    }
    &mut table[place]
}
