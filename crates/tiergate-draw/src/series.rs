//! Values of several rounds, and lines with gaps.

/// Where the middle of some values is, and how far they reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The value in the middle; of an even number, the mean of the two there.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Range {
    /// Of these values; `None` without any.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let median = f64::midpoint(values[last / 2], values[last.div_ceil(2)]);
        Some(Self { median, min: values[0], max: values[last] })
    }
}

/// The parts of a line without gaps: the place of the first point, and the points.
pub fn pieces<T: Copy>(points: &[Option<T>]) -> Vec<(usize, Vec<T>)> {
    let mut pieces: Vec<(usize, Vec<T>)> = Vec::new();
    let mut open = false;
    for (place, point) in points.iter().enumerate() {
        match (point, pieces.last_mut()) {
            (None, _) => {}
            (Some(point), Some((_, piece))) if open => piece.push(*point),
            (Some(point), _) => pieces.push((place, vec![*point])),
        }
        open = point.is_some();
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_its_middle() {
        assert_eq!(Range::of([]), None);
        let odd = Range::of([3.0, 1.0, 2.5]);
        assert_eq!(odd, Some(Range { median: 2.5, min: 1.0, max: 3.0 }));
        assert_eq!(Range::of([4.0, 1.0]).map(|range| range.median), Some(2.5));
    }

    #[test]
    fn gaps_part_a_line() {
        let points = [None, Some(1), Some(2), None, None, Some(3)];
        assert_eq!(pieces(&points), [(1, vec![1, 2]), (5, vec![3])]);
        assert_eq!(pieces::<u8>(&[]), []);
    }
}
