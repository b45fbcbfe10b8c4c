//! What a policy says, section by section.

pub use super::access_log::{AccessLog, LogFormat};
pub use super::denial::Denial;
pub use super::forwarding::{Buffering, Spooling};
pub use super::identity::Identity;
pub use super::kernel::{BlockInKernel, KernelSettings, Mechanism, RequestsInKernel};
pub use super::lane::LaneSettings;
pub use super::limits::Limits;
pub use super::link::{Link, LinkInterface};
pub use super::listener::{ClientAuthority, ClientCertificate, Listener, Tls};
pub use super::log_line::Pattern;
pub(crate) use super::log_line::{Escape, Part, Variable};
pub use super::origin::{HealthCheck, Origin};
pub use super::origin_tls::{OriginProtocol, OriginTls};
pub use super::policy::Policy;
pub use super::refusal::{Refusal, RefusalConnection};
pub use super::request_id::RequestIdHeader;
pub use super::reverse_dns::ReverseDns as Names;
pub use super::rules::PolicyRule;
pub use super::sensor::{Measure, Of, Sensor, Stalled};
pub use super::sensor_remote::{AgentSensor, OrcaSensor, Unit};
pub use super::server::Server;
pub use super::timeouts::Timeouts;
pub use super::traces::{Collector, Tracing};
pub use super::wanted::Wanted;
pub use super::workers::{Command, Processes, Ready, Workers};
pub use tiergate_wire::http1::Forwarding;
