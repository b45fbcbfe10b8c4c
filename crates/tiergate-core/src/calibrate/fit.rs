//! The service time of a request and of a MiB, from the capacities of answers of several sizes.

use crate::adapt::Estimate;

/// Bytes of a MiB.
const MEBIBYTE: f64 = 1_048_576.0;
/// Sizes are different if they differ by such a part.
const DIFFERENT: f64 = 0.05;

/// A size and what it costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Bytes of an answer's body.
    pub bytes: f64,
    /// Seconds of the whole server that a request takes, the inverse of its capacity, with the standard error.
    pub seconds: Estimate,
}

impl Point {
    /// Of answers of that size, and the capacity for them in answers a second.
    pub fn new(bytes: f64, capacity: Estimate) -> Self {
        let seconds = 1.0 / capacity.value;
        Point {
            bytes,
            seconds: Estimate { value: seconds, error: seconds * capacity.error / capacity.value },
        }
    }
}

/// Service time = request + mebibyte x size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Seconds of a request without its bytes.
    pub request: Estimate,
    /// Seconds of a MiB.
    pub mebibyte: Estimate,
    /// The largest difference between a size's time and the line's, relative to its time.
    pub off_max: f64,
}

/// The line through the sizes, by weighted least squares; `None`: there are no two different sizes. Neither cost is below 0.
///
/// Errors are those of the capacities, or more where the sizes are not on a line. Source: Abdelzaher, Shin and Bhatti (2002), 7.2:
/// T(x) = A + B x from the maximum rates. There, sizes whose bottleneck is the network are on another line, through 0: they are
/// to be left out here, and fitted by themselves.
pub fn fit(points: &[Point]) -> Option<Fit> {
    let sizes = || points.iter().map(|it| it.bytes);
    let (least, most) = (sizes().fold(f64::MAX, f64::min), sizes().fold(0.0, f64::max));
    if points.len() < 2 || most - least <= DIFFERENT * most {
        return None;
    }
    // By the relative error: it is known at least to a hundredth of the time.
    let weight = |it: &Point| 1.0 / it.seconds.error.max(it.seconds.value / 100.0).powi(2);
    let size = |it: &Point| it.bytes / MEBIBYTE;
    let sum = |of: &dyn Fn(&Point) -> f64| points.iter().map(|it| weight(it) * of(it)).sum::<f64>();
    let [one, x, xx] = [sum(&|_| 1.0), sum(&size), sum(&|it| size(it).powi(2))];
    let [y, xy] = [sum(&|it| it.seconds.value), sum(&|it| size(it) * it.seconds.value)];
    let determinant = one * xx - x * x;
    let (mut request, mut mebibyte) =
        ((xx * y - x * xy) / determinant, (one * xy - x * y) / determinant);
    if request < 0.0 {
        (request, mebibyte) = (0.0, xy / xx);
    } else if mebibyte < 0.0 {
        (request, mebibyte) = (y / one, 0.0);
    }
    let off = |it: &Point| it.seconds.value - request - mebibyte * size(it);
    let squares = sum(&|it| off(it).powi(2));
    let scatter = match points.len() {
        2 => 1.0,
        many => (squares / (many - 2) as f64).max(1.0),
    };
    let off_max = points.iter().map(|it| (off(it) / it.seconds.value).abs()).fold(0.0, f64::max);
    let error = |of: f64| (of / determinant * scatter).sqrt();
    Some(Fit {
        request: Estimate { value: request, error: error(xx) },
        mebibyte: Estimate { value: mebibyte, error: error(one) },
        off_max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(bytes: f64, rate: f64, error: f64) -> Point {
        Point::new(bytes, Estimate { value: rate, error: rate * error })
    }

    #[test]
    fn the_paper_s_server() {
        // Table 1, sizes of 1 to 32 KiB: A = 1.604 ms, B = 0.063 ms/KiB, which is 64.5 ms/MiB.
        let table = [(1, 586), (2, 578), (4, 538), (8, 482), (16, 383), (32, 301)];
        let points: Vec<Point> =
            table.map(|(kib, rate)| point(f64::from(kib * 1024), f64::from(rate), 0.02)).into();
        let fit = fit(&points).expect("different sizes");
        assert!((fit.request.value * 1e3 - 1.63).abs() < 0.05, "{fit:?}");
        assert!((fit.mebibyte.value * 1e3 - 57.0).abs() < 7.0, "{fit:?}");
        assert!(fit.off_max < 0.05 && fit.mebibyte.is_known(), "{fit:?}");
    }

    #[test]
    fn costs_are_not_below_nothing() {
        let through_zero = [point(1e4, 1010.0, 0.02), point(1e6, 10.0, 0.02)];
        let fit_of = |points: &[Point]| fit(points).expect("different sizes");
        let found = fit_of(&through_zero);
        assert!(found.request.value == 0.0 && found.request.error > 0.0, "{found:?}");
        assert!((found.mebibyte.value - 0.1049).abs() < 0.001, "{found:?}");
        let flat = fit_of(&[point(1e3, 99.0, 0.02), point(1e5, 101.0, 0.02)]);
        assert!((flat.request.value - 0.01).abs() < 1e-4 && flat.mebibyte.value == 0.0, "{flat:?}");
    }

    #[test]
    fn one_size_says_nothing() {
        assert_eq!(fit(&[]), None);
        assert_eq!(fit(&[point(100.0, 10.0, 0.1)]), None);
        assert_eq!(fit(&[point(1000.0, 10.0, 0.1), point(1001.0, 11.0, 0.1)]), None);
    }
}
