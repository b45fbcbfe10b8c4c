//! A radix tree over bytes that finds every key that a text begins with, in one pass.

/// Entries under byte strings, each either for texts that are the string (`here`) or for texts that
/// begin with it (`through`).
///
/// Nodes lie in one array, a node's children side by side. Cost of a walk: O(length of the text),
/// whatever the number of keys. What a step needs is mostly all in the node, and hence in one line of
/// the processor's cache; a short label is compared at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Trie {
    nodes: Vec<Node>,
    /// Labels longer than [`SHORT`].
    labels: Vec<u8>,
    /// Entries of nodes with more than one.
    entries: Vec<u32>,
    wide: Vec<[u8; 256]>,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Node {
    /// First bytes of up to [`FEW`] children, lowest byte first; unused ones repeat the first.
    keys: [u64; 2],
    /// The label, if it is short.
    short: [u8; SHORT],
    /// Where the label begins in `labels`, if it is long.
    label: u32,
    label_len: u32,
    /// The first child; the others follow.
    children: u32,
    /// Place in `wide` of the children's order, if there are more than [`FEW`].
    wide: u32,
    /// Where the entries begin in `entries`; of one alone, the entry itself.
    entries: u32,
    through_len: u32,
    here_len: u32,
    children_len: u16,
}

/// Bytes of a label that lies in its node.
const SHORT: usize = 16;
/// Children whose first bytes lie in their parent: enough for digits.
const FEW: usize = 16;

/// A key to build a trie from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// The byte string.
    pub bytes: Vec<u8>,
    /// Whether the entry is only for texts that are the string, not for those that go on.
    pub here: bool,
    /// What is found.
    pub entry: u32,
}

/// A text to look up, so that one can be read backwards or in lower case without a copy.
pub(super) trait Text {
    /// Bytes of it.
    fn len(&self) -> usize;
    /// One of them.
    fn at(&self, place: usize) -> u8;
    /// As many from `place` on as a short label has, the first lowest, if there are so many.
    fn word(&self, place: usize) -> Option<u128>;
}

impl Text for &[u8] {
    #[inline]
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    #[inline]
    fn at(&self, place: usize) -> u8 {
        self[place]
    }

    #[inline]
    fn word(&self, place: usize) -> Option<u128> {
        self[place..].first_chunk::<SHORT>().map(|bytes| u128::from_le_bytes(*bytes))
    }
}

/// From its end to its beginning; in lower case if so asked.
pub(super) struct Backwards<'a, const LOWER: bool>(pub &'a [u8]);

impl<const LOWER: bool> Text for Backwards<'_, LOWER> {
    #[inline]
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn at(&self, place: usize) -> u8 {
        let byte = self.0[self.0.len() - 1 - place];
        if LOWER { byte.to_ascii_lowercase() } else { byte }
    }

    #[inline]
    fn word(&self, place: usize) -> Option<u128> {
        let rest = &self.0[..self.0.len() - place];
        let word = rest.last_chunk::<SHORT>().map(|bytes| u128::from_be_bytes(*bytes));
        if LOWER { word.map(lower) } else { word }
    }
}

/// Each byte in lower case, where it is ASCII.
#[inline]
fn lower(word: u128) -> u128 {
    const EACH: u128 = u128::MAX / 0xff;
    // No sum goes beyond its byte: 0x7f + 0x3f is the largest.
    let low = word & (EACH * 0x7f);
    let from_a = low + EACH * (0x80 - b'A' as u128);
    let beyond_z = low + EACH * (0x7f - b'Z' as u128);
    let upper = (from_a & !beyond_z & !word) & (EACH * 0x80);
    word | upper >> 2
}

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;
/// In `wide`: no such child. A node has at most 256 children, the last number 255 is told apart by
/// the count of children.
const ABSENT: u8 = 255;

impl Trie {
    /// A trie of all keys; a key may stand several times.
    pub(super) fn new(mut keys: Vec<Key>) -> Self {
        let mut trie = Trie::default();
        if keys.is_empty() {
            return trie;
        }
        keys.sort_unstable();
        trie.nodes.push(Node::default());
        // Breadth first, so that siblings lie side by side.
        let mut open = std::collections::VecDeque::from([(0usize, 0..keys.len(), 0usize)]);
        while let Some((place, range, depth)) = open.pop_front() {
            let keys = &keys[range.clone()];
            let (first, last) = (&keys[0].bytes, &keys[keys.len() - 1].bytes);
            let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
            let ending = keys.partition_point(|key| key.bytes.len() == common);
            let through = keys[..ending].partition_point(|key| !key.here);
            let mut node = Node {
                label_len: (common - depth) as u32,
                children: trie.nodes.len() as u32,
                through_len: through as u32,
                here_len: (ending - through) as u32,
                ..Node::default()
            };
            let label = &first[depth..common];
            if let Some(short) = node.short.get_mut(..label.len()) {
                short.copy_from_slice(label);
            } else {
                node.label = trie.labels.len() as u32;
                trie.labels.extend_from_slice(label);
            }
            if let [alone] = &keys[..ending] {
                node.entries = alone.entry;
            } else {
                node.entries = trie.entries.len() as u32;
                trie.entries.extend(keys[..ending].iter().map(|key| key.entry));
            }
            let mut firsts = Vec::new();
            let mut from = ending;
            while from < keys.len() {
                let byte = keys[from].bytes[common];
                let to = from + keys[from..].partition_point(|key| key.bytes[common] == byte);
                open.push_back((
                    trie.nodes.len() + firsts.len(),
                    range.start + from..range.start + to,
                    common + 1,
                ));
                firsts.push(byte);
                from = to;
            }
            trie.nodes.extend(vec![Node::default(); firsts.len()]);
            node.children_len = firsts.len() as u16;
            if firsts.len() > FEW {
                node.wide = trie.wide.len() as u32;
                let mut order = [ABSENT; 256];
                for (place, byte) in firsts.iter().enumerate() {
                    order[usize::from(*byte)] = place as u8;
                }
                trie.wide.push(order);
            } else if let Some(&filler) = firsts.first() {
                let mut keys = [filler; FEW];
                keys[..firsts.len()].copy_from_slice(&firsts);
                let (words, _) = keys.as_chunks::<8>();
                node.keys = [words[0], words[1]].map(u64::from_le_bytes);
            }
            trie.nodes[place] = node;
        }
        trie
    }

    /// Calls `emit` for every entry that the text has.
    #[inline]
    pub(super) fn walk(&self, text: impl Text, mut emit: impl FnMut(u32)) {
        let Some(mut node) = self.nodes.first() else {
            return;
        };
        let mut place = 0;
        loop {
            if !self.begins(node, &text, place) {
                return;
            }
            place += node.label_len as usize;
            let end = place == text.len();
            let found = node.through_len + if end { node.here_len } else { 0 };
            if found > 0 {
                if node.through_len + node.here_len == 1 {
                    emit(node.entries);
                } else {
                    for entry in &self.entries[node.entries as usize..][..found as usize] {
                        emit(*entry);
                    }
                }
            }
            if end {
                return;
            }
            let Some(child) = self.child(node, text.at(place)) else {
                return;
            };
            node = &self.nodes[child];
            place += 1;
        }
    }

    /// Whether the text goes on with the node's label at `place`.
    #[inline]
    fn begins(&self, node: &Node, text: &impl Text, place: usize) -> bool {
        let len = node.label_len as usize;
        if len == 0 {
            return true;
        }
        if len <= SHORT
            && let Some(word) = text.word(place)
        {
            // All at once; what lies behind the label is shifted out.
            return (word ^ u128::from_le_bytes(node.short)) << (8 * (SHORT - len)) == 0;
        }
        let label = match node.short.get(..len) {
            Some(short) => short,
            None => &self.labels[node.label as usize..][..len],
        };
        text.len() - place >= len
            && label.iter().enumerate().all(|(offset, byte)| text.at(place + offset) == *byte)
    }

    #[inline]
    fn child(&self, node: &Node, byte: u8) -> Option<usize> {
        let place = match node.children_len {
            0 => return None,
            1..=8 => place_of(node.keys[0], byte)?,
            9..=16 => match place_of(node.keys[0], byte) {
                Some(place) => place,
                None => 8 + place_of(node.keys[1], byte)?,
            },
            256 => usize::from(byte),
            _ => match self.wide[node.wide as usize][usize::from(byte)] {
                ABSENT => return None,
                place => usize::from(place),
            },
        };
        Some(node.children as usize + place)
    }
}

/// The lowest place of a byte in a word.
#[inline]
fn place_of(keys: u64, byte: u8) -> Option<usize> {
    // The lowest set mark of a zero byte is exact; those above it may be false.
    let apart = keys ^ (LOW * u64::from(byte));
    let zeros = apart.wrapping_sub(LOW) & !apart & HIGH;
    (zeros != 0).then(|| zeros.trailing_zeros() as usize / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(trie: &Trie, text: &[u8]) -> Vec<u32> {
        let mut found = Vec::new();
        trie.walk(text, |entry| found.push(entry));
        found.sort_unstable();
        found
    }

    fn key(bytes: &[u8], here: bool, entry: u32) -> Key {
        Key { bytes: bytes.to_vec(), here, entry }
    }

    #[test]
    fn finds_every_prefix_and_the_exact_key() {
        let trie = Trie::new(vec![
            key(b"", false, 0),
            key(b"/a", true, 1),
            key(b"/a", false, 2),
            key(b"/ab/", false, 3),
            key(b"/ab/c", true, 4),
            key(b"/ab/c", true, 5),
            key(b"/b", true, 6),
        ]);
        assert_eq!(found(&trie, b""), [0]);
        assert_eq!(found(&trie, b"/a"), [0, 1, 2]);
        assert_eq!(found(&trie, b"/ab/c"), [0, 2, 3, 4, 5]);
        assert_eq!(found(&trie, b"/ab/cd"), [0, 2, 3]);
        assert_eq!(found(&trie, b"/b"), [0, 6]);
        assert_eq!(found(&trie, b"/c"), [0]);
        assert_eq!(found(&Trie::new(Vec::new()), b"/"), [] as [u32; 0]);
    }

    #[test]
    fn texts_read_backwards_and_in_lower_case_are_what_a_copy_would_be() {
        let all: Vec<u8> = (0..=255).chain(*b"WWW.Example.COM@[`{").collect();
        let reversed: Vec<u8> = all.iter().rev().copied().collect();
        let lowered = reversed.to_ascii_lowercase();
        assert_eq!(
            lower(u128::from_le_bytes(*b"AZaz@[`{\xc1\xda09.-\x80\xff")).to_le_bytes(),
            *b"azaz@[`{\xc1\xda09.-\x80\xff"
        );
        for place in 0..all.len() {
            let word = (&reversed[..]).word(place);
            assert_eq!(Backwards::<false>(&all).word(place), word, "{place}");
            assert_eq!(Backwards::<true>(&all).word(place), (&lowered[..]).word(place), "{place}");
            assert_eq!(Backwards::<false>(&all).at(place), reversed[place]);
            assert_eq!(Backwards::<true>(&all).at(place), lowered[place]);
            assert_eq!(word.is_some(), place + SHORT <= all.len());
        }
        assert_eq!(Backwards::<false>(&all).len(), all.len());
    }

    #[test]
    fn every_number_of_children_up_to_all_bytes_is_found() {
        for count in [1usize, 7, 8, 9, 15, 16, 17, 255, 256] {
            let keys = (0..count).map(|byte| key(&[byte as u8], true, byte as u32));
            let trie = Trie::new(keys.collect());
            for byte in 0..=255u8 {
                let expected: Vec<u32> =
                    (usize::from(byte) < count).then_some(u32::from(byte)).into_iter().collect();
                assert_eq!(found(&trie, &[byte]), expected, "{count} children, byte {byte}");
            }
        }
    }

    #[test]
    fn labels_of_every_length_are_found_and_no_other_text() {
        for len in [0usize, 1, 15, 16, 17, 40] {
            let label = "abcdefgh".repeat(5).into_bytes()[..len].to_vec();
            let long = [&label[..], b"x"].concat();
            let trie =
                Trie::new(vec![key(&label, false, 1), key(&long, true, 2), key(&long, true, 3)]);
            assert_eq!(found(&trie, &label), [1], "{len}");
            assert_eq!(found(&trie, &long), [1, 2, 3], "{len}");
            assert_eq!(found(&trie, &[&long[..], b"y"].concat()), [1], "{len}");
            for place in 0..len {
                let mut other = label.clone();
                other[place] = b'-';
                assert_eq!(found(&trie, &other), [] as [u32; 0], "{len}");
                assert_eq!(found(&trie, &label[..place]), [] as [u32; 0], "{len}");
            }
        }
    }
}
