//! Which label the packets of a connection bear while it carries answers of several classes: that of the most important class
//! of which an answer is in progress.
//!
//! A connection has one stream of packets, and a packet that waits for a less urgent one before it is as late as that. So
//! an answer is never marked as less than its class has, and others gain by it for a while.
//!
//! Source: RFC 2474 §3 for the code point; RFC 7657 §5.1: several code points within one TCP connection make its packets overtake each other, hence
//! one at a time, changed as seldom as the answers allow. Marking by class: WebQoS (Bhatti and Friedrich 1999, §3).

/// What packets bear. By default, what they bear of which nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// The code point, 0 to 63: for the network.
    pub dscp: u8,
    /// The priority of their socket, 0 to 6: for the queues of this machine.
    pub priority: u8,
}

impl Label {
    /// Of the background. The code point: lower effort, RFC 8622. The priority: Linux' filler (`TC_PRIO_FILLER`), which the default queue
    /// of an interface (`pfifo_fast`) sends after all else.
    pub const BACKGROUND: Label = Label { dscp: 1, priority: 1 };

    /// The highest priority that needs no right.
    pub const PRIORITY_MAX: u8 = 6;
}

/// What a class's messages are marked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The class's place in the order of importance, from 0.
    pub rank: u16,
    /// What packets bear.
    pub label: Label,
}

impl Mark {
    /// Of a class that is gone from the policy: as little as any.
    pub const NONE: Mark = Mark { rank: u16::MAX, label: Label { dscp: 0, priority: 0 } };
}

/// The answers in progress of one connection, by class.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// Each rank once, ascending, and how many answers of it are in progress.
    answers: Vec<(Mark, u32)>,
}

impl Marks {
    /// An answer begins: the label of the connection from now on.
    ///
    /// O(classes with answers in progress); allocates only for the first that the connection has at once.
    pub fn begin(&mut self, mark: Mark) -> Label {
        match self.answers.binary_search_by_key(&mark.rank, |(other, _)| other.rank) {
            Ok(place) => {
                // A reload may have changed what the class has.
                self.answers[place].0 = mark;
                self.answers[place].1 += 1;
            }
            Err(place) => self.answers.insert(place, (mark, 1)),
        }
        self.answers[0].0.label
    }

    /// One of this rank has ended: the label from now on; `None`: none is in progress, so that it may stay what it is.
    pub fn end(&mut self, rank: u16) -> Option<Label> {
        if let Ok(place) = self.answers.binary_search_by_key(&rank, |(mark, _)| mark.rank) {
            self.answers[place].1 -= 1;
            if self.answers[place].1 == 0 {
                self.answers.remove(place);
            }
        }
        self.answers.first().map(|(mark, _)| mark.label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_most_important_answer_in_progress_marks_all() {
        let mut marks = Marks::default();
        let label = |dscp| Label { dscp, priority: dscp % 7 };
        let mark = |rank, dscp| Mark { rank, label: label(dscp) };
        assert_eq!(marks.begin(mark(2, 8)), label(8));
        assert_eq!(marks.begin(mark(0, 34)), label(34));
        assert_eq!(marks.begin(mark(1, 18)), label(34));
        assert_eq!(marks.begin(mark(0, 46)), label(46), "a reload changed it");
        assert_eq!([marks.end(0), marks.end(0)], [46, 18].map(|it| Some(label(it))));
        assert_eq!([marks.end(2), marks.end(1)], [Some(label(18)), None]);
        assert_eq!(marks.end(1), None, "none of it was there");
    }

    proptest! {
        #[test]
        fn as_a_plain_list_would_say(steps in prop::collection::vec((0_u16..5, any::<bool>()), 0..60)) {
            let label = |rank: u16| Label { dscp: rank as u8 + 10, priority: rank as u8 };
            let (mut marks, mut list) = (Marks::default(), Vec::new());
            for (rank, begins) in steps {
                let found = list.iter().position(|other| *other == rank);
                let said = if begins {
                    list.push(rank);
                    Some(marks.begin(Mark { rank, label: label(rank) }))
                } else if let Some(place) = found {
                    list.remove(place);
                    marks.end(rank)
                } else {
                    continue;
                };
                prop_assert_eq!(said, list.iter().min().map(|rank| label(*rank)));
            }
        }
    }
}
