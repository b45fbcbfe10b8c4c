//! Scenarios drawn at random, to judge laws of the limit by servers and loads that nobody chose, and a judge that knows no law.
//!
//! A scenario is composed of a kind of server ([`Kind`]), of [`Event`]s, of a load ([`Load`]) and of distributions of service times by
//! class. It lasts 80 s. The premium class always fits into what is left of the capacity; the others bring the load to 1.2 to 4 times the
//! server's capacity.
//!
//! | | [`Family::Open`], to tune on | [`Family::HeldOut`], to judge on |
//! |---|---|---|
//! | events | none, one, or two of the same sort | two, one of each sort ([`Event::OF_CAPACITY`], [`Event::OF_REQUESTS`]) |
//! | servers | all kinds but [`Kind::Few`]; 2 to 64 workers, 1 to 12 cores | all kinds; 1 to 120 workers, 1 to 20 cores |
//! | service times | uniform, exponential, log-normal (cv 0.3 to 1.2), bimodal (4 to 8 times) | constant, exponential, log-normal (cv 1.2 to 3), bimodal (10 to 25 times) |
//! | classes | two, of 0.5 to 2 times the mean size | two or three, of 0.25 to 5 times |
//! | load | 1.3 to 2.5 times the capacity; steady, bursts, a ramp | 1.2 to 4 times; steady, a flash crowd, users, retries |
//! | premium | 10 to 30 % of the capacity, steady | 5 to 40 %, one in three doubles |
//! | events' ranges | milder | harder; autoscaling in two steps, a restart instead of a cold start, errors of a time-out instead of 504 |
//!
//! So no pair of events is in both families, and no server with the same events. Within a family everything is drawn independently, but
//! for combinations that are not what they say (a quota without cores).
//!
//! Not covered: servers that stop working when a client leaves in the middle of service, autoscaling that follows the load, balancers in
//! front of servers that each have a queue of their own, gateways that come and go, dependencies that are named to the gateway, service
//! times with infinite variance, sessions, HTTP/2 streams that share a connection.

mod chance;
mod changes;
mod clients;
mod draw;
mod judge;
mod origin;
mod parts;
mod results;
pub mod table;
mod text;

pub use draw::{Drawn, Judged, draw};
pub use judge::{Best, Outcome, Sums, best, outcome};
pub use parts::{Composition, Event, Family, Kind, Load};
pub use results::{Contender, Judgement, judge};
pub use text::toml;
