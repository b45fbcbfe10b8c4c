//! One trial, run behind several fronts.

use crate::report::{ClassReport, Report};
use crate::trial::Front;

/// One trial, run behind several fronts.
#[derive(Clone, Debug)]
pub struct Compared {
    /// What it is about, in a line: the files.
    pub title: String,
    /// What the server is, and the offered load, in lines.
    pub about: Vec<String>,
    /// The classes' names, most important first.
    pub classes: Vec<String>,
    /// What came out, the policy first.
    pub reports: Vec<(Front, Report)>,
}

impl Compared {
    /// What came out behind the policy.
    pub fn policy(&self) -> &Report {
        &self.reports[0].1
    }

    /// Length of the run in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.policy().seconds()
    }

    /// The classes that got requests.
    pub(super) fn active(&self) -> Vec<usize> {
        let arrived =
            |class: &usize| self.reports.iter().any(|(_, report)| report.class(*class).arrived > 0);
        (0..self.classes.len()).filter(arrived).collect()
    }

    /// Each front's classes over the whole run, and all together last.
    pub(super) fn sums(&self) -> Vec<Vec<ClassReport>> {
        let sums = self.reports.iter().map(|(_, report)| {
            let classes = (0..self.classes.len()).map(|class| report.class(class));
            let mut sums: Vec<ClassReport> = classes.collect();
            sums.push(ClassReport::sum(&sums));
            sums
        });
        sums.collect()
    }
}
