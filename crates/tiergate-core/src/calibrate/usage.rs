//! Utilizations of what a request needs.

/// What is measured while the load rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// All processors of the origin's machine, 0.0 to 1.0.
    Machine,
    /// What the origin uses of the processors, 0.0 to 1.0 of all that it may use.
    Origin,
    /// What the origin's busiest thread uses of one processor, 0.0 to 1.0.
    Thread,
    /// The fuller direction of the network interface, 0.0 to 1.0.
    Link,
    /// The busiest disk, 0.0 to 1.0.
    Disk,
    /// Memory in use, 0.0 to 1.0.
    Memory,
    /// Pages a second that are swapped in or out.
    Paging,
    /// Share of time in which tasks waited for memory, 0.0 to 1.0.
    MemoryPressure,
    /// Connections that the origin has not accepted yet.
    ListenQueue,
    /// The largest share of time in which a thread of the origin, or the load generator, was on a processor or waited for one,
    /// 0.0 to 1.0.
    Wanted,
    /// What the load generator uses of the one processor that it can use, 0.0 to 1.0.
    Generator,
}

impl Resource {
    /// How many there are.
    pub const COUNT: usize = 11;
    /// Every resource, in the order of [`Usage`].
    pub const ALL: [Resource; Self::COUNT] = [
        Resource::Machine,
        Resource::Origin,
        Resource::Thread,
        Resource::Link,
        Resource::Disk,
        Resource::Memory,
        Resource::Paging,
        Resource::MemoryPressure,
        Resource::ListenQueue,
        Resource::Wanted,
        Resource::Generator,
    ];

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Resource::Machine => "machine_cpu",
            Resource::Origin => "origin_cpu",
            Resource::Thread => "busiest_thread",
            Resource::Link => "link",
            Resource::Disk => "disk",
            Resource::Memory => "memory",
            Resource::Paging => "pages_per_second",
            Resource::MemoryPressure => "memory_pressure",
            Resource::ListenQueue => "listen_queue",
            Resource::Wanted => "processor_wanted",
            Resource::Generator => "generator_cpu",
        }
    }
}

/// A reading of each resource; `None` where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage([Option<f64>; Resource::COUNT]);

impl Usage {
    /// The reading of a resource.
    pub fn of(&self, resource: Resource) -> Option<f64> {
        self.0[resource as usize]
    }

    /// Sets the reading of a resource.
    pub fn set(&mut self, resource: Resource, value: f64) {
        self.0[resource as usize] = Some(value);
    }

    /// With that reading.
    #[must_use]
    pub fn with(mut self, resource: Resource, value: f64) -> Self {
        self.set(resource, value);
        self
    }

    /// Means of readings, each weighted; of a resource only over those that have one.
    pub fn mean<'a>(all: impl Iterator<Item = (&'a Usage, f64)> + Clone) -> Usage {
        Usage(std::array::from_fn(|place| {
            let known = all.clone().filter_map(|(usage, weight)| Some((usage.0[place]?, weight)));
            let (sum, weights) = known.fold((0.0, 0.0), |(sum, weights), (value, weight)| {
                (sum + value * weight, weights + weight)
            });
            (weights > 0.0).then(|| sum / weights)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_has_a_place_of_its_own() {
        for (place, resource) in Resource::ALL.into_iter().enumerate() {
            assert_eq!(resource as usize, place);
        }
        let one = Usage::default().with(Resource::Link, 0.2).with(Resource::Disk, 1.0);
        let other = Usage::default().with(Resource::Link, 0.8);
        let mean = Usage::mean([(&one, 1.0), (&other, 2.0)].into_iter());
        assert!((mean.of(Resource::Link).expect("both have it") - 0.6).abs() < 1e-9);
        assert_eq!(mean.of(Resource::Disk), Some(1.0), "one has it");
        assert_eq!(mean.of(Resource::Machine), None);
    }
}
