//! The names of one kind.

use super::id::{Id, exhausted};
use crate::fault::Fault;
use foldhash::fast::FixedState;
use std::collections::HashMap;

/// The names of one kind, each with its id: the first has 0, the next 1.
#[derive(Debug)]
pub struct Interned<I> {
    ids: HashMap<Box<str>, I, FixedState>,
}

impl<I> Default for Interned<I> {
    fn default() -> Self {
        Interned { ids: HashMap::default() }
    }
}

impl<I: Id> Interned<I> {
    /// The id of the name, if it was interned.
    pub fn find(&self, name: &str) -> Option<I> {
        self.ids.get(name).copied()
    }

    /// The id of the name, which is new or known.
    ///
    /// # Errors
    /// If it is new and there are [`Id::MAX`] names.
    pub fn intern(&mut self, name: &str) -> Result<I, Fault> {
        if let Some(id) = self.find(name) {
            return Ok(id);
        }
        if self.ids.len() >= I::MAX {
            return Err(exhausted::<I>(
                format_args!("{name:?}"),
                "all that were named since the start",
            ));
        }
        let id = I::at(self.ids.len());
        self.ids.insert(name.into(), id);
        Ok(id)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Forgets all but the first so many.
    pub(super) fn truncate(&mut self, len: usize) {
        if self.ids.len() > len {
            self.ids.retain(|_, id| id.index() < len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::id::ClassId;

    #[test]
    fn an_id_never_changes_meaning_and_their_number_is_bounded() {
        let mut classes = Interned::<ClassId>::default();
        let id = |classes: &mut Interned<ClassId>, name: &str| classes.intern(name);
        assert_eq!(id(&mut classes, "a"), Ok(ClassId(0)));
        assert_eq!(id(&mut classes, "b"), Ok(ClassId(1)));
        assert_eq!(id(&mut classes, "a"), Ok(ClassId(0)));
        for number in 2..ClassId::MAX {
            assert_eq!(id(&mut classes, &number.to_string()), Ok(ClassId(number as u16)));
        }
        let full = id(&mut classes, "c").unwrap_err().to_string();
        let most =
            "no room for \"c\": a process has ids for 4096 classes, counting all that were named";
        assert!(full.starts_with(most), "{full}");
        assert_eq!(id(&mut classes, "b"), Ok(ClassId(1)));
        classes.truncate(1);
        assert_eq!((classes.find("b"), id(&mut classes, "c")), (None, Ok(ClassId(1))));
    }
}
