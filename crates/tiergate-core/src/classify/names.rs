//! A table of names (of headers, cookies, methods) that mostly says "not one of ours", fast.

/// Values by name. Names come from the policy, so nobody can crowd the table from outside; a request
/// only asks.
#[derive(Clone, Debug, Default)]
pub(super) struct Names<T> {
    /// Lengths that some name has, modulo 64: most fields of a request end here.
    lens: u64,
    /// Open addressing, a power of two of places, at most half of them taken; see [`Names::hash`].
    places: Vec<Place>,
    names: Vec<(Box<[u8]>, T)>,
    caseless: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    hash: u32,
    /// One more than the place in `names`; 0: free.
    name: u32,
}

impl<T> Names<T> {
    /// A table of distinct names. With `caseless` they must be in lower case and compare without
    /// regard to it.
    pub(super) fn new(names: Vec<(Box<[u8]>, T)>, caseless: bool) -> Self {
        let mut table = Names {
            lens: 0,
            places: vec![Place::default(); (names.len() * 2).next_power_of_two().max(2)],
            names,
            caseless,
        };
        for (index, (name, _)) in table.names.iter().enumerate() {
            table.lens |= 1 << (name.len() % 64);
            let hash = Self::hash(name);
            let mut place = hash as usize & (table.places.len() - 1);
            while table.places[place].name != 0 {
                place = (place + 1) & (table.places.len() - 1);
            }
            table.places[place] = Place { hash, name: index as u32 + 1 };
        }
        table
    }

    /// Whether there is no name.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The value under `name`.
    #[inline(always)]
    pub(super) fn find(&self, name: &[u8]) -> Option<&T> {
        if self.lens & (1 << (name.len() % 64)) == 0 {
            return None;
        }
        let hash = Self::hash(name);
        let mut place = hash as usize & (self.places.len() - 1);
        loop {
            let Place { hash: there, name: index } = self.places[place];
            if index == 0 {
                return None;
            }
            if there == hash {
                let (known, value) = &self.names[index as usize - 1];
                let same =
                    if self.caseless { known.eq_ignore_ascii_case(name) } else { **known == *name };
                if same {
                    return Some(value);
                }
            }
            place = (place + 1) & (self.places.len() - 1);
        }
    }

    /// Mixes eight bytes at a time, letters without their case.
    #[inline]
    fn hash(name: &[u8]) -> u32 {
        const CASE: u64 = 0x2020_2020_2020_2020;
        // The multiplier of FxHash: odd, with its bits well spread.
        const SPREAD: u64 = 0xf135_7aea_2e62_a9c5;
        let mut hash = name.len() as u64;
        let mut mix =
            |word: u64| hash = (hash.rotate_left(23) ^ (word | CASE)).wrapping_mul(SPREAD);
        let (words, rest) = name.as_chunks::<8>();
        for word in words {
            mix(u64::from_le_bytes(*word));
        }
        if let Some(last) = name.last_chunk::<8>() {
            // Overlaps what is mixed already, which is cheaper than looking at single bytes.
            mix(u64::from_le_bytes(*last));
        } else if let (Some(first), Some(last)) = (rest.first_chunk::<4>(), rest.last_chunk::<4>())
        {
            mix(u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last)));
        } else if let (Some(first), Some(last)) = (rest.first(), rest.last()) {
            let middle = rest[rest.len() / 2];
            mix(u64::from(*first) | u64::from(middle) << 8 | u64::from(*last) << 16);
        }
        (hash >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_names_of_every_length_and_nothing_else() {
        let name = |len: usize, letter: u8| vec![letter; len].into_boxed_slice();
        let names: Vec<_> = (0..200).map(|len| (name(len, b'x'), len)).collect();
        let table = Names::new(names, true);
        for len in 0..200 {
            assert_eq!(table.find(&name(len, b'X')), Some(&len));
            assert_eq!(table.find(&name(len, b'y')), if len == 0 { Some(&0) } else { None });
        }
        assert_eq!(table.find(&name(200, b'x')), None);
    }

    #[test]
    fn names_that_differ_only_in_the_middle_are_told_apart() {
        let name = |number: usize| format!("experiment-{number:05}-variant").into_bytes();
        let names = (0..10_000).map(|number| (name(number).into(), number)).collect();
        let table: Names<usize> = Names::new(names, false);
        for number in 0..10_000 {
            assert_eq!(table.find(&name(number)), Some(&number));
        }
        assert_eq!(table.find(b"EXPERIMENT-00001-variant"), None);
        assert_eq!(Names::<()>::default().find(b"x"), None);
    }
}
