//! Readings of another machine, from `tiergate agent` there.
//!
//! ```text
//! ask ─┬─ no connection, no answer in time, 401, no answer of an agent ─▶ fault
//!      └─ readings ─┬─ a number not seen before, young enough ─▶ reading
//!                   ├─ the number seen last, not for long yet ─▶ nothing new
//!                   └─ none, too old, or the same for too long ─▶ fault
//! ```
//!
//! A fault is said in words that stay the same while it lasts, so that the log has it once.

use super::answer::{AgentAnswer, AgentReading};
use super::probe::LASTING;
use crate::config::meant::AgentSensor;
use crate::observe::words::harmless;
use crate::side_http::{self, Addresses};
use anyhow::{Context, Result, bail, ensure};
use http::{HeaderMap, StatusCode, header};
use std::time::{Duration, Instant};
use tiergate_core::sense::Quantity;

/// Where an agent has its readings.
pub(crate) const PATH: &str = "/readings";
/// Bytes of an agent's answer: about 300 a sensor.
const ANSWER_LEN_MAX: usize = 64 * 1024;
/// Letters of a fault that an agent tells.
const FAULT_LEN_MAX: usize = 200;
/// How long an answer is waited for: a period of the sensor, but within these.
const PATIENCE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// Longest period that an agent may say it has.
const EVERY_MAX: Duration = Duration::from_secs(60);

/// Asks one agent for one reading, again and again.
pub(super) struct Remote {
    of: AgentSensor,
    /// The name of the sensor there.
    reading: String,
    /// How often it is asked.
    every: Duration,
    /// Where the agent is; other sensors may ask it as well.
    agent: Addresses,
    last: Option<Last>,
}

/// The reading that was seen last.
struct Last {
    agent: String,
    sequence: u64,
    /// When it was seen first.
    since: Instant,
}

/// A reading, and for how long it holds.
pub(super) type Lasting = (Quantity, Duration);

impl Remote {
    /// For a sensor of that name and period, which asks the agent there.
    pub(super) fn new(of: &AgentSensor, name: &str, every: Duration, agent: Addresses) -> Self {
        let reading = of.reading.clone().unwrap_or_else(|| name.to_owned());
        Remote { of: of.clone(), reading, every, agent, last: None }
    }

    /// Asks once. `None`: there is nothing new, and what there was still holds.
    ///
    /// # Errors
    /// Why there is no reading, in words.
    pub(super) async fn take(&mut self) -> Result<Option<Lasting>> {
        let answer = self.ask().await?;
        self.judge(answer, Instant::now())
    }

    /// The last reading was not taken: if it comes again, it is looked at again.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    async fn ask(&self) -> Result<AgentAnswer> {
        let address = &self.of.address;
        let mut headers = HeaderMap::new();
        if let Some(token) = &self.of.token {
            headers.insert(header::AUTHORIZATION, token.header());
        }
        let patience = self.every.clamp(PATIENCE[0], PATIENCE[1]);
        let asked = side_http::get(&self.agent, PATH, headers, ANSWER_LEN_MAX, patience).await;
        let (status, body) = asked.with_context(|| format!("agent http://{address}"))?;
        match status {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED if self.of.token.is_some() => {
                bail!("agent http://{address} refuses the token of token_file (401)")
            }
            StatusCode::UNAUTHORIZED => {
                bail!("agent http://{address} wants a token (401): write token_file")
            }
            status => {
                bail!("agent http://{address} answers {}: is it tiergate agent?", status.as_u16())
            }
        }
        // What the parser says of strangers' bytes would change from one to the next.
        serde_json::from_slice(&body)
            .ok()
            .with_context(|| format!("agent http://{address} answers what is no agent's answer"))
    }

    /// What an answer that came at this moment says.
    fn judge(&mut self, answer: AgentAnswer, at: Instant) -> Result<Option<Lasting>> {
        let (name, address) = (&self.reading, &self.of.address);
        let mut readings = answer.readings.into_iter();
        let found = readings.find(|it| it.sensor == *name);
        let found: AgentReading =
            found.with_context(|| format!("agent http://{address} has no sensor {name}"))?;
        let unit = self.of.unit;
        ensure!(
            found.quantity == unit.name(),
            "sensor {name} of the agent is a {}; write quantity = {0:?}",
            short(&found.quantity)
        );
        let every = Duration::try_from_secs_f64(found.every_seconds).unwrap_or(EVERY_MAX);
        let holds = LASTING * self.every.max(every.min(EVERY_MAX));
        // The agent says how old it is, and we know for how long we have seen no other one: an agent that keeps answers, or has stopped
        // measuring, cannot make an old one new.
        let age = found.age_seconds.and_then(|age| Duration::try_from_secs_f64(age).ok());
        let is_seen = |last: &&Last| last.agent == answer.agent && last.sequence == found.sequence;
        let seen = self.last.as_ref().filter(is_seen).map(|last| at.duration_since(last.since));
        let reading = found.value.zip(age).filter(|_| found.sequence > 0);
        let Some((value, age)) =
            reading.filter(|(_, age)| (*age).max(seen.unwrap_or_default()) < holds)
        else {
            match &found.fault {
                Some(fault) => bail!("sensor {name} of the agent: {}", short(fault)),
                None if reading.is_none() => bail!("sensor {name} of the agent has no reading yet"),
                None => bail!("sensor {name} of the agent has had no new reading for {holds:?}"),
            }
        };
        if seen.is_some() {
            return Ok(None);
        }
        let quantity = unit.quantity(value);
        let quantity = quantity.with_context(|| format!("{value} is no length of a queue"))?;
        self.last = Some(Last { agent: answer.agent, sequence: found.sequence, since: at });
        Ok(Some((quantity, holds - age)))
    }
}

/// What a stranger says, for the log.
fn short(text: &str) -> String {
    harmless(text).chars().take(FAULT_LEN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::meant::Unit;

    const SECOND: Duration = Duration::from_secs(1);

    fn remote() -> Remote {
        let of = AgentSensor {
            address: "10.0.0.5:9180".to_owned(),
            reading: None,
            unit: Unit::Utilization,
            token_file: None,
            token: None,
        };
        new(&of)
    }

    fn new(of: &AgentSensor) -> Remote {
        Remote::new(of, "cpu", SECOND, Addresses::of(&of.address))
    }

    fn answer(agent: &str, sequence: u64, value: f64, age: f64) -> AgentAnswer {
        let cpu = AgentReading {
            sensor: "cpu".to_owned(),
            measures: String::new(),
            quantity: "utilization".to_owned(),
            value: Some(value),
            sequence,
            age_seconds: Some(age),
            every_seconds: 2.0,
            fault: None,
        };
        let other = AgentReading { sensor: "disk".to_owned(), ..cpu.clone() };
        AgentAnswer { agent: agent.to_owned(), readings: vec![other, cpu] }
    }

    #[test]
    fn a_reading_is_taken_once_and_holds_by_its_own_period() {
        let (mut remote, begun) = (remote(), Instant::now());
        let mut judge = |answer, seconds| {
            remote.judge(answer, begun + seconds * SECOND).map_err(|fault| fault.to_string())
        };
        let half = Quantity::Utilization(0.5);
        assert_eq!(
            judge(answer("a", 7, 0.5, 1.5), 0),
            Ok(Some((half, Duration::from_millis(4500))))
        );
        assert_eq!(judge(answer("a", 7, 0.5, 2.5), 1), Ok(None), "the same one");
        assert!(judge(answer("a", 8, 0.25, 0.0), 2).expect("a new one").is_some());
        // Begun anew, it counts from 1 again, and may come to the same number.
        assert!(judge(answer("b", 8, 0.5, 0.0), 3).expect("a new one").is_some());
    }

    #[test]
    fn what_stands_still_is_a_fault_whoever_says_how_old_it_is() {
        let begun = Instant::now();
        let judge = |remote: &mut Remote, answer, seconds| {
            remote.judge(answer, begun + seconds * SECOND).map_err(|fault| fault.to_string())
        };
        let still = Err("sensor cpu of the agent has had no new reading for 6s".to_owned());
        // The agent's clock goes on: it says so itself, though this gateway has just begun.
        assert_eq!(judge(&mut remote(), answer("a", 7, 0.5, 6.0), 0), still);
        // Something keeps its answers: nothing in them ages.
        let mut kept = remote();
        assert!(judge(&mut kept, answer("a", 7, 0.5, 0.0), 0).is_ok());
        assert_eq!(judge(&mut kept, answer("a", 7, 0.5, 0.0), 5), Ok(None));
        assert_eq!(judge(&mut kept, answer("a", 7, 0.5, 0.0), 6), still);
        assert_eq!(judge(&mut kept, answer("a", 7, 0.5, 0.0), 60), still, "in the same words");
        assert!(judge(&mut kept, answer("a", 8, 0.5, 0.0), 61).expect("again").is_some());
        for age in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(judge(&mut remote(), answer("a", 1, 0.5, age), 0).is_err(), "{age}");
        }
    }

    #[test]
    fn what_cannot_be_stays_a_fault_while_it_is_shown() {
        let mut of = remote().of;
        of.unit = Unit::QueueLen;
        let mut remote = new(&of);
        for _ in 0..2 {
            let mut answer = answer("a", 7, -1.0, 0.0);
            answer.readings[1].quantity = "queue_len".to_owned();
            let fault = remote.judge(answer, Instant::now()).expect_err("no length");
            assert!(fault.to_string().contains("is no length of a queue"), "{fault}");
        }
    }

    #[test]
    fn what_an_agent_lacks_is_said() {
        let fault = |change: &dyn Fn(&mut AgentReading)| {
            let mut answer = answer("a", 1, 0.5, 0.0);
            change(&mut answer.readings[1]);
            remote().judge(answer, Instant::now()).expect_err("a fault").to_string()
        };
        assert_eq!(fault(&|it| it.sensor.clear()), "agent http://10.0.0.5:9180 has no sensor cpu");
        let queue = fault(&|it| it.quantity = "queue_len".to_owned());
        assert_eq!(queue, "sensor cpu of the agent is a queue_len; write quantity = \"queue_len\"");
        let none = |it: &mut AgentReading| (it.value, it.sequence) = (None, 0);
        assert_eq!(fault(&none), "sensor cpu of the agent has no reading yet");
        let long = "\u{1b}[2J".repeat(100);
        let said = fault(&|it| (it.value, it.fault) = (None, Some(long.clone())));
        assert!(said.len() < 300 && !said.contains('\u{1b}'), "{said}");
    }
}
