//! What came out over time, class by class.

use crate::spread::Spread;

/// One class in one stretch of time.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Answers that reached a client that was still there.
    pub good: u64,
    /// From arrival until the server began with them.
    pub wait: Spread,
}

/// Stretches of equal length, one after another.
#[derive(Clone, Debug)]
pub struct Series {
    /// How long a stretch is, in seconds.
    pub step_s: f64,
    /// By stretch and class.
    pub points: Vec<Vec<Point>>,
}

impl Series {
    /// So many stretches of a run of so many seconds.
    pub fn new(seconds: f64, stretches: usize, classes: usize) -> Self {
        Series {
            step_s: seconds / stretches as f64,
            points: vec![vec![Point::default(); classes]; stretches],
        }
    }

    /// The stretch at `now`, in nanoseconds.
    pub fn at(&mut self, now: u64, class: usize) -> &mut Point {
        let place = (now as f64 / 1e9 / self.step_s) as usize;
        let last = self.points.len() - 1;
        &mut self.points[place.min(last)][class]
    }

    /// The same in stretches that are `times` as long.
    pub fn coarser(&self, times: usize) -> Series {
        let merged = |stretches: &[Vec<Point>]| {
            let mut sums = stretches[0].clone();
            for stretch in &stretches[1..] {
                for (sum, more) in sums.iter_mut().zip(stretch) {
                    sum.good += more.good;
                    sum.wait.merge(&more.wait);
                }
            }
            sums
        };
        Series {
            step_s: self.step_s * times as f64,
            points: self.points.chunks(times).map(merged).collect(),
        }
    }

    /// Good answers a second of a class, over time.
    pub fn goodput(&self, class: usize) -> Vec<f64> {
        self.points.iter().map(|point| point[class].good as f64 / self.step_s).collect()
    }

    /// 99th percentile of the wait of a class in milliseconds, over time; `None`: nobody waited.
    pub fn wait_p99_ms(&self, class: usize) -> Vec<Option<f64>> {
        let p99 = |wait: &Spread| (wait.count() > 0).then(|| wait.quantile_ms(0.99));
        self.points.iter().map(|point| p99(&point[class].wait)).collect()
    }
}
