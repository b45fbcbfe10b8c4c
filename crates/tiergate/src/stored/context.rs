//! What an answer may depend on that `Vary` does not name, because the gateway knows it or says it to the origin.

use tiergate_core::names::PoolId;
use tiergate_core::request::Field;
use tiergate_core::stored::FORWARDED;

/// Most bytes of what it says; of a request with more nothing is kept.
const FORWARDED_LEN_MAX: usize = 512;

/// What an answer may depend on beside target and `Vary`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Context {
    /// The client connected by TLS.
    pub(super) secure: bool,
    /// The pool that answers.
    pub(super) pool: PoolId,
    /// What a trusted peer says that its client asked for.
    pub(super) forwarded: Box<[u8]>,
}

impl Context {
    /// That of a request of which the fields that are believed are given. `None`: its answer is not kept.
    pub(super) fn of(
        secure: bool,
        pool: PoolId,
        trusted: bool,
        fields: &[Field<'_>],
    ) -> Option<Self> {
        let mut forwarded = Vec::new();
        let is = |field: &Field<'_>, name: &str| field.name.eq_ignore_ascii_case(name.as_bytes());
        for field in fields.iter().filter(|_| trusted) {
            if let Some(place) = FORWARDED.iter().position(|name| is(field, name)) {
                forwarded.push(place as u8);
                forwarded.extend_from_slice(field.value);
                forwarded.push(0);
            } else if is(field, "forwarded") {
                // For whom it is makes no difference.
                let parts = field.value.split(|byte| b";,".contains(byte)).map(<[u8]>::trim_ascii);
                let names = |part: &[u8], name: &str| {
                    let begin = part.get(..name.len());
                    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(name.as_bytes()))
                };
                let parts = parts.filter(|part| !names(part, "for=") && !names(part, "by="));
                for part in parts {
                    forwarded.push(u8::MAX);
                    forwarded.extend_from_slice(part);
                    forwarded.push(0);
                }
            }
            if forwarded.len() > FORWARDED_LEN_MAX {
                return None;
            }
        }
        Some(Context { secure, pool, forwarded: forwarded.into() })
    }
}
