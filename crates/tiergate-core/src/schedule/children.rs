//! What a policy keeps of each child, from plan to plan: of those that stay it stays, of new ones there is
//! nothing yet.

use super::Terms;

/// A child as a plan has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Child {
    /// Which class, or site, it is, in every plan.
    pub id: u16,
    /// What the plan says of it.
    pub terms: Terms,
}

/// A state for each child, in the plan's order.
#[derive(Clone, Debug, Default)]
pub(super) struct States<S> {
    ids: Vec<u16>,
    states: Vec<S>,
}

impl<S: Clone + Default> States<S> {
    /// Puts a plan's children in force. O(children²): there are few.
    pub(super) fn reconfigure(&mut self, children: &[Child]) {
        let former = |child: &Child| self.ids.iter().position(|id| *id == child.id);
        let state = |child| former(child).map_or_else(S::default, |at| self.states[at].clone());
        self.states = children.iter().map(state).collect();
        self.ids = children.iter().map(|child| child.id).collect();
    }

    /// The states, in the plan's order.
    pub(super) fn all(&self) -> &[S] {
        &self.states
    }

    /// The states, to be changed.
    pub(super) fn all_mut(&mut self) -> &mut [S] {
        &mut self.states
    }
}
