//! Which workers of a pool stay, go and come when its policy changes.

/// What becomes of the workers of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster<S> {
    /// Of each that runs, whether it stays.
    pub stays: Vec<bool>,
    /// Those that come: their numbers and servers.
    pub comes: Vec<(u32, S)>,
}

/// What becomes of workers with these numbers and servers, where these servers are to have one each; a server that is named twice has two. A
/// worker keeps its number and its server for as long as it is. `leaves`: the numbers of others of the pool that are on their way out; one that comes has the
/// lowest that nobody has, and one of theirs only if none is left up to as many as there are to be. O(n²) of workers, of which there are some dozens.
pub fn roster<S: Clone + PartialEq>(runs: &[(u32, S)], wanted: &[S], leaves: &[u32]) -> Roster<S> {
    let mut missing = wanted.to_vec();
    let mut stays = Vec::with_capacity(runs.len());
    for (_, server) in runs {
        let place = missing.iter().position(|it| it == server);
        stays.push(place.map(|place| missing.remove(place)).is_some());
    }
    let numbers = |stay: bool| {
        let those = runs.iter().zip(&stays).filter(move |(_, stays)| **stays == stay);
        those.map(|((number, _), _)| *number)
    };
    let mut taken: Vec<u32> = numbers(true).collect();
    let left: Vec<u32> = leaves.iter().copied().chain(numbers(false)).collect();
    let count = u32::try_from(wanted.len()).unwrap_or(u32::MAX);
    let mut comes = Vec::with_capacity(missing.len());
    for server in missing {
        let is_free = |number: &u32| !taken.contains(number);
        let unused = (1..=count).find(|number| is_free(number) && !left.contains(number));
        let number = unused.or_else(|| (1..).find(is_free)).unwrap_or(u32::MAX);
        taken.push(number);
        comes.push((number, server));
    }
    Roster { stays, comes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn who_has_its_server_stays() {
        let runs = [(1, "a"), (2, "b"), (3, "c")];
        let same = roster(&runs, &["c", "a", "b"], &[]);
        assert_eq!((same.stays, same.comes), (vec![true; 3], vec![]));
        // One that comes does not have the number of one that leaves, as long as another is free.
        let other = roster(&runs, &["a", "c", "d", "e"], &[]);
        assert_eq!(other.stays, [true, false, true]);
        assert_eq!(other.comes, [(4, "d"), (2, "e")]);
        assert_eq!(roster(&runs, &["a", "a"], &[]).comes, [(2, "a")], "all are taken");
        assert_eq!(roster(&[], &["a", "b"], &[1, 2]).comes, [(1, "a"), (2, "b")]);
    }

    proptest! {
        #[test]
        fn each_server_has_as_many_as_it_is_named_and_no_more_change_than_must(
            before in prop::collection::vec(0..5_u8, 0..8),
            after in prop::collection::vec(0..5_u8, 0..8),
            leaves in prop::collection::vec(1..10_u32, 0..4),
        ) {
            let began = roster(&[], &before, &leaves);
            let runs: Vec<(u32, u8)> = began.comes;
            prop_assert_eq!(runs.len(), before.len());
            let next = roster(&runs, &after, &leaves);
            let stay = runs.iter().zip(&next.stays).filter(|(_, stays)| **stays);
            let all: Vec<(u32, u8)> = stay.map(|(it, _)| *it).chain(next.comes.clone()).collect();
            let sorted = |mut them: Vec<u8>| {
                them.sort_unstable();
                them
            };
            prop_assert_eq!(sorted(all.iter().map(|it| it.1).collect()), sorted(after.clone()));
            let of = |them: &[u8], server| them.iter().filter(|it| **it == server).count();
            let kept: usize = (0..5).map(|it| of(&before, it).min(of(&after, it))).sum();
            prop_assert_eq!(next.stays.iter().filter(|it| **it).count(), kept);
            let mut numbers: Vec<u32> = all.iter().map(|it| it.0).collect();
            numbers.sort_unstable();
            numbers.dedup();
            prop_assert_eq!(numbers.len(), all.len(), "no number twice");
            prop_assert!(numbers.iter().all(|it| *it >= 1 && *it as usize <= before.len() + after.len()));
        }
    }
}
