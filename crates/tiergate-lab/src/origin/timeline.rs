//! What happens to the origin, and when: a part of its workers goes or comes, a page grows slow.

use super::service::{FACTOR_MAX, as_text_in_files, prefix_in};
use crate::units::{parse_duration, written};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Most workers at once, by command line or timeline.
pub(super) const WORKERS_MAX: usize = 10_000;

/// What changes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// So many workers from now on. Fewer: the surplus end after the request that they serve.
    /// None at all is a server that hangs.
    Workers(usize),
    /// Requests whose path begins with `prefix` take `factor` times as long; 1 is normal.
    Slow {
        /// How the path begins.
        prefix: String,
        /// Times as long.
        factor: f64,
    },
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected workers=N or slow=PREFIX:FACTOR, got {text:?}");
        let (what, value) = text.split_once('=').ok_or_else(wrong)?;
        match what {
            "workers" => {
                let workers: usize = value.parse().map_err(|_| wrong())?;
                if workers > WORKERS_MAX {
                    return Err(format!("workers: at most {WORKERS_MAX}, got {workers}"));
                }
                Ok(Self::Workers(workers))
            }
            "slow" => {
                let (prefix, factor) = value.rsplit_once(':').ok_or_else(wrong)?;
                let prefix = prefix_in(prefix)?;
                let factor: f64 = factor.parse().map_err(|_| wrong())?;
                if !(factor > 0.0 && factor <= FACTOR_MAX) {
                    return Err(format!(
                        "slow: a factor above 0 and at most {FACTOR_MAX}, got {factor}"
                    ));
                }
                Ok(Self::Slow { prefix, factor })
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workers(workers) => write!(f, "workers={workers}"),
            Self::Slow { prefix, factor } => write!(f, "slow={prefix}:{factor}"),
        }
    }
}

/// A change and its time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// Since the first request arrived.
    pub(crate) at: Duration,
    /// What happens then.
    pub(crate) change: Change,
}

/// Events in order of time. Written `8s:workers=8,20s:slow=/browse:5`; may be empty.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Timeline(pub(crate) Vec<Event>);

impl FromStr for Timeline {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut events: Vec<Event> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
            let (at, change) = part.split_once(':').ok_or_else(|| {
                format!("expected TIME:CHANGE such as 8s:workers=8, got {part:?}")
            })?;
            let event = Event { at: parse_duration(at)?, change: change.parse()? };
            if events.last().is_some_and(|last| last.at > event.at) {
                return Err(format!("{part:?} must not come before the event in front of it"));
            }
            events.push(event);
        }
        Ok(Self(events))
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, Event { at, change }) in self.0.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            write!(f, "{comma}{}:{change}", written(*at))?;
        }
        Ok(())
    }
}

as_text_in_files!(Timeline);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_is_read_and_written_back() {
        let text = "8s:workers=8,16s:workers=16,20s:slow=/browse:5,30500ms:slow=/a:b:0.5";
        let timeline: Timeline = text.parse().unwrap();
        assert_eq!(timeline.to_string(), text);
        assert_eq!(timeline.0[1].change, Change::Workers(16));
        let slow = Change::Slow { prefix: "/a:b".into(), factor: 0.5 };
        assert_eq!(timeline.0[3], Event { at: Duration::from_millis(30_500), change: slow });
        assert_eq!("".parse(), Ok(Timeline::default()));
        assert_eq!("0:workers=0, 0:workers=1".parse::<Timeline>().unwrap().0.len(), 2);
    }

    #[test]
    fn mistakes_are_told() {
        let told = [
            ("8s", "TIME:CHANGE"),
            ("8:workers=8", "40ms"),
            ("8s:workers", "workers=N"),
            ("8s:workers=-1", "workers=N"),
            ("8s:workers=10001", "at most 10000"),
            ("8s:threads=8", "\"threads=8\""),
            ("8s:slow=/a", "PREFIX:FACTOR"),
            ("8s:slow=a:2", "begins with /"),
            ("8s:slow=/a:0", "above 0"),
            ("8s:slow=/a:NaN", "above 0"),
            ("8s:workers=1,7s:workers=2", "before"),
            ("8s:workers=1,", "TIME:CHANGE"),
        ];
        for (wrong, why) in told {
            let error = wrong.parse::<Timeline>().unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }
}
