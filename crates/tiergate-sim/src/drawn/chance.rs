//! What is drawn, by chance.

use fastrand::Rng;

/// Evenly between two numbers.
pub(super) fn between(rng: &mut Rng, (low, high): (f64, f64)) -> f64 {
    low + (high - low) * rng.f64()
}

/// Evenly on a logarithmic scale between two numbers above 0.
pub(super) fn scaled(rng: &mut Rng, (low, high): (f64, f64)) -> f64 {
    low * (high / low).powf(rng.f64())
}

/// One of these.
pub(super) fn one_of<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(0..of.len())]
}
