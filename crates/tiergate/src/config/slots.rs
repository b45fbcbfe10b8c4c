//! How many slots there are: `slots` of a pool or resource, and those of single servers.

use super::kind::Scalar;
use super::place::{At, Place, wrong};
use super::section::{Definitions, Kind};
use super::server::{SLOTS_MAX, Written};
use super::values::whole;
use serde_json::{Value as Json, json};
use tiergate_core::control::Slots;
use toml::de::DeValue;

const SLOTS: &str = "\"adaptive\" or a number of requests";

/// `"adaptive"`, or how many.
pub(super) struct SlotsKind;

impl Kind for SlotsKind {
    type Value = Slots;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<Slots> {
        match value {
            DeValue::String(text) if text == "adaptive" => Some(Slots::default()),
            DeValue::Integer(_) => {
                let number = Scalar { expected: SLOTS, ..whole(1..=SLOTS_MAX) };
                number.read(value, place).map(Slots::Fixed)
            }
            _ => wrong(value, place, SLOTS),
        }
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        let number = whole::<u32>(1..=SLOTS_MAX).schema(definitions);
        json!({ "oneOf": [{ "const": "adaptive" }, number] })
    }
}

/// What a table says of the slots of its servers.
pub(super) struct SlotsKeys<'a> {
    pub(super) servers: &'a [At<Written>],
    pub(super) slots: &'a At<Slots>,
    pub(super) shared: Option<&'a At<bool>>,
    pub(super) slots_per_server: Option<&'a At<bool>>,
}

/// The same as it is meant.
#[derive(Clone, Debug, Default)]
pub(super) struct PoolSlots {
    /// Of all servers together, or of each that has no number of its own. Where each has one, their sum: none is adaptive then.
    pub(super) slots: Slots,
    pub(super) is_per_server: bool,
    /// Whether every server has a number of its own.
    pub(super) is_all_own: bool,
}

impl SlotsKeys<'_> {
    /// What it means where `[origin]` says what is not written; reports what contradicts itself.
    pub(super) fn meant(&self, inherited: &Self) -> PoolSlots {
        let is = |given: Option<&At<bool>>| given.is_some_and(|it| it.value);
        let is_per_server = is(self.slots_per_server.or(inherited.slots_per_server));
        let own = self.servers.iter().filter_map(|it| it.value.slots);
        let (count, sum) =
            own.fold((0, 0_u32), |(count, sum), slots| (count + 1, slots.saturating_add(sum)));
        let Some(first) = self.servers.iter().find(|it| it.value.slots.is_some()) else {
            let slots = adaptive_or_shared(&self.slots.value, self.shared, is(inherited.shared));
            return PoolSlots { slots, is_per_server, is_all_own: false };
        };
        let first = &first.place.key;
        if let Some(At { value: false, place }) = self.slots_per_server {
            place
                .fault(format!("must not be false, since {first} has slots of its own: remove it"));
        }
        if count == self.servers.len() {
            if let Slots::Fixed(_) = self.slots.value {
                let fault = "has no effect, since every server has slots of its own: remove it";
                self.slots.place.fault(fault);
            }
            if let Some(At { value: true, place }) = self.shared {
                place.fault(
                    "has no effect, since every server has slots of its own: divide them among the \
                     gateways and remove this",
                );
            }
            return PoolSlots { slots: Slots::Fixed(sum), is_per_server: true, is_all_own: true };
        }
        if let (Slots::Fixed(slots), false) = (&self.slots.value, is_per_server) {
            self.slots.place.fault(format!(
                "is the limit of all servers together, but {first} has slots of its own: write \
                 slots_per_server = true for {slots} at each of the others, or remove this"
            ));
        }
        let slots = adaptive_or_shared(&self.slots.value, self.shared, is(inherited.shared));
        PoolSlots { slots, is_per_server: true, is_all_own: false }
    }
}

/// How the number of slots is set, where `shared` says whether other gateways have the same servers; reports a number of
/// slots that they are to find together.
fn adaptive_or_shared(slots: &Slots, shared: Option<&At<bool>>, inherited: bool) -> Slots {
    match (slots, shared) {
        (Slots::Fixed(slots), Some(At { value: true, place })) => {
            place.fault(format!(
                "has no effect with slots = {slots}: write slots = \"adaptive\", or divide the slots among \
                 the gateways and remove this"
            ));
            Slots::Fixed(*slots)
        }
        (Slots::Adaptive(bounds), given) if given.map_or(inherited, |it| it.value) => {
            Slots::Shared(bounds.clone())
        }
        (slots, _) => slots.clone(),
    }
}

/// A limit in words.
pub(crate) fn words(slots: &Slots) -> String {
    match slots {
        Slots::Fixed(slots) => format!("at most {slots} at once (fixed)"),
        Slots::Adaptive(_) => {
            "as many at once as it can take, measured continuously (adaptive)".to_owned()
        }
        Slots::Shared(_) => {
            "as many at once as it can take with the requests of other gateways, measured at the \
             same moments of the wall clock as they do (adaptive, shared)"
                .to_owned()
        }
    }
}
