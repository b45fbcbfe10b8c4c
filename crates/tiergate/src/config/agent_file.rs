//! The file of `tiergate agent`: the sensors that it reads, and nothing else.

use super::error::{ConfigError, Errors};
use super::kind::list;
use super::place::{At, File, Place};
use super::section::{Kind, section, table};
use super::sensor::{self, Sensor, SensorKeys, sensors};
use super::text::read_text;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// Longest file: some hundred bytes a sensor.
const LEN_MAX: u64 = 1 << 20;

section! {
    /// What an agent reads.
    pub(super) struct AgentRoot {
        /// The sensors.
        sensor: Vec<At<SensorKeys>> =
            list(table(), sensor::COUNT_MAX, "sensors").or_none("none");
    }
}

/// The sensors of an agent's file.
///
/// # Errors
/// When it cannot be read, is too large, or has faults.
pub(crate) fn load_agent(path: &Path) -> Result<Vec<Sensor>, ConfigError> {
    let text = read_text(path, LEN_MAX)?;
    parse_agent(&text, &path.to_string_lossy()).map_err(ConfigError::Faults)
}

/// The same from its text.
fn parse_agent(text: &str, file_name: &str) -> Result<Vec<Sensor>, Errors> {
    let file = File::new(file_name, text);
    let (document, syntax) = DeTable::parse_recoverable(text);
    for fault in syntax {
        let at = fault.span().map_or(0, |span| span.start);
        Place::of(&file, String::new(), at).fault(fault.message().trim());
    }
    let mut found = Vec::new();
    if file.is_sound() {
        let root = DeValue::Table(document.into_inner());
        let place = Place::of(&file, String::new(), 0).of_value(&root);
        let raw = table::<AgentRoot>().read(&root, &place);
        found = raw.map(|raw| sensors(raw.sensor, None)).unwrap_or_default();
        if found.is_empty() && file.is_sound() {
            place.fault("an agent needs something to read; write [[sensor]]");
        }
    }
    match file.is_sound() {
        true => Ok(found),
        false => Err(file.errors(file_name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sensors_of_the_machine_and_nothing_else() {
        let sensor = "[[sensor]]\nname = \"cpu\"\nmeasure = \"cpu\"\n";
        assert_eq!(parse_agent(sensor, "a.toml").expect("it is good").len(), 1);
        let fault = |text: &str| parse_agent(text, "a.toml").expect_err(text).to_string();
        let faults = [
            ("", "an agent needs something to read"),
            ("threads = 2\n", "a.toml:1:1: threads: unknown key"),
            ("[origin]\nservers = [\"a:1\"]\n", "a.toml:1:2: origin: unknown key"),
            (
                "[[sensor]]\nname = \"a\"\nmeasure = \"orca\"\nmetric = \"eps\"\n",
                "sensor[1].measure: an agent reads its own machine only",
            ),
            (
                "[[sensor]]\nname = \"a\"\nmeasure = \"agent\"\nagent = \"http://b:1\"\n",
                "sensor[1].measure: an agent reads its own machine only",
            ),
            ("[[sensor]\n", "a.toml:1:"),
        ];
        for (text, expected) in faults {
            assert!(fault(text).contains(expected), "{text}: {}", fault(text));
        }
    }
}
