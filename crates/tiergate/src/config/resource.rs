//! `[[resource]]`: what only some requests of a pool need, with a limit of its own.

use super::lookup::{Interning, find};
use super::place::{At, Place, wrong};
use super::pool::Pools;
use super::section::{Definitions, Kind, section};
use super::slots::{self, SlotsKind};
use super::values::{Name, TEXT, check_unique};
use serde_json::{Value as Json, json};
use tiergate_core::control::Slots;
use tiergate_core::names::{PoolId, ResourceId};
use tiergate_core::plan::{Plan, ResourceSettings};
use toml::de::DeValue;

section! {
    /// Something behind the servers that only some requests need, such as a database, with a concurrency limit of its own.
    pub(super) struct ResourceKeys {
        /// The name by which rules and classes refer to it.
        name: Option<String> = Name.required("write name = \"…\"");
        /// Concurrency limit of the resource: the number of requests in progress that need it, up to 1000000; or
        /// `"adaptive"`: as many as raise their throughput, which leaves the other requests no slots of the pool when it hangs.
        /// Such a request takes a slot of the pool, too.
        /// Why: a number below that of the pool protects the rest: the application's pool of connections has one.
        slots: Option<Slots> = SlotsKind
            .required("write slots = N, fewer than the pool has, or slots = \"adaptive\"");
        /// The pool whose requests may need it; `"default"`: that of `[origin]`. In another pool, also as a fallback, a request
        /// needs no slot of it.
        pool: Option<String> = TEXT.optional("`\"default\"`");
    }
}

/// The name of a resource, or of something else, or `false` for none: what a rule says. It holds what is expected.
pub(super) struct NameOrFalse(pub &'static str);

impl Kind for NameOrFalse {
    type Value = Option<String>;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<Option<String>> {
        match value {
            DeValue::Boolean(false) => Some(None),
            DeValue::String(name) => Some(Some(name.to_string())),
            _ => wrong(value, place, self.0),
        }
    }

    fn schema(&self, _: &mut Definitions) -> Json {
        json!({ "oneOf": [{ "const": false }, { "type": "string" }] })
    }
}

/// The resources of a policy.
#[derive(Default)]
pub(super) struct Resources {
    ids: Vec<ResourceId>,
    pub(super) list: Vec<ResourceSettings>,
}

impl Resources {
    /// The resource of this name; reports one that does not exist.
    pub(super) fn named(&self, name: &str, place: &Place) -> Option<ResourceId> {
        let names = self.list.iter().map(|it| it.name.as_str());
        find("resource", name, names, place).map(|index| self.ids[index])
    }

    /// What a rule says that its requests need.
    pub(super) fn need(&self, need: &Option<String>, place: &Place) -> Option<ResourceId> {
        match need {
            Some(name) => self.named(name, place),
            None => Some(ResourceId::NONE),
        }
    }

    /// How many requests may use it at once.
    pub(super) fn slots(&self, id: ResourceId) -> Option<&Slots> {
        let index = self.ids.iter().position(|it| *it == id)?;
        Some(&self.list[index].slots)
    }
}

/// The resources, of these pools.
pub(super) fn resources(
    raw: Vec<At<ResourceKeys>>,
    pools: &Pools,
    mut known: Interning<'_, ResourceId>,
) -> Resources {
    let mut resources = Resources::default();
    for At { value: raw, place } in raw {
        let Some((name, mut slots)) = raw.name.zip(raw.slots) else { continue };
        let name_place = place.key("name");
        let before = resources.list.iter().map(|it| it.name.as_str());
        check_unique("resource", &name, before, &name_place);
        let pool = raw.pool.and_then(|pool| pools.named(&pool, &place.key("pool")));
        let pool = pool.unwrap_or(PoolId::DEFAULT);
        // What other gateways' requests need, too.
        if let (Slots::Adaptive(bounds), true) = (&slots, pools.slots(pool).is_shared()) {
            slots = Slots::Shared(bounds.clone());
        }
        resources.ids.push(known.id(&name, &name_place));
        resources.list.push(ResourceSettings { name, pool, slots });
    }
    resources
}

/// For `tiergate check`: a line for each.
pub(crate) fn words(plan: &Plan) -> Vec<String> {
    let words = |it: &ResourceSettings| {
        let pool = match plan.pools.is_empty() {
            true => String::new(),
            false => format!(", of pool {}", plan.pool_name(it.pool).unwrap_or_default()),
        };
        format!("{}{pool}: {}", it.name, slots::words(&it.slots))
    };
    plan.resources.iter().map(words).collect()
}

/// A resource's name.
pub(crate) fn name(id: ResourceId, plan: &Plan) -> &str {
    plan.resource(id).map_or("no resource", |it| it.name.as_str())
}
