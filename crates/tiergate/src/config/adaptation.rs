//! `[[adaptation]]`: answers of lower quality while the server is busy.

use super::cost::{CostKeys, costs};
use super::inbound::{ReferenceKind, reference_of};
use super::kind::{Parsed, Text, list};
use super::lookup::{Interning, find};
use super::mode::{MODE, Mode};
use super::place::{At, Place};
use super::pool::Pools;
use super::rule_values::FLOW;
use super::section::{Kind, section, table};
use super::sensor::Sensor;
use super::show;
use super::values::{FLAG, Name, TEXT, check_unique, whole};
use serde_json::json;
use tiergate_core::adapt::{Adaptation, Level, Watched};
use tiergate_core::admit::bucket::PARTS;
use tiergate_core::admit::inbound::{Inbound, Reference};
use tiergate_core::classify::flow::Flow;
use tiergate_core::classify::path::Handling;
use tiergate_core::names::{AdaptationId, SiteId};
use tiergate_core::plan::Plan;

section! {
    /// Levels of quality, and what decides between them.
    pub(super) struct AdaptationKeys {
        /// The name by which rules and classes refer to it.
        name: Option<String> = Name.required("write name = \"…\"");
        /// Whether it is in force, `"enforce"`; or only [observed](#mode-parts-of-a-policy-that-are-observed), `"observe"`: in force every answer is full, from the last level's `tree` and `pool`, and the trees are closed as ever.
        mode: Mode = MODE.or("enforce");
        /// The [`[[sensor]]`](#sensor-what-is-measured-of-the-machine) whose reading is held at the reference, one that measures a share or a
        /// queue; or `"backlog"`: the requests that wait in the queue of `[origin]`.
        sensor: Option<String> = TEXT.required("write sensor = \"…\", the name of a [[sensor]], or \"backlog\"");
        /// Where the reading is to stay: a share such as `"80%"`, or the length of a queue.
        /// Why: a processor that is in use four fifths of the time leaves room for what comes in bursts; where requests have deadlines that
        /// are short for what they cost, `"58%"` keeps them all (Abdelzaher, §2).
        reference: Option<Reference> = ReferenceKind.optional("`\"80%\"`, or `20` for a queue");
        /// Other sensors whose readings are to stay where they should, `{ sensor = "…", reference = "…" }` each: whichever is short decides.
        also: Vec<At<AlsoKeys>> =
            list(table(), Adaptation::ALSO_MAX, "sensors").or_none("none");
        /// The levels, the lowest quality first: `[[adaptation.level]]` tables.
        level: Vec<At<LevelKeys>> = list(table(), Adaptation::LEVELS_MAX, "levels")
            .or_else("must have at least one level")
            .needed("write [[adaptation.level]] tables, the lowest quality first");
        /// Whether a part of the clients is refused (reason `level`) where the lowest quality is still too much.
        /// Why: what is too much for the limit waits, and is refused, by the importance of its class.
        refuse: bool = FLAG.or(false);
        /// What requests take of what the sensor measures: [guarantees](#guarantees).
        cost: Option<At<CostKeys>> =
            table().placed().optional("needed where a `[[site]]` has a guarantee");
        /// What tells clients apart, as in [flows](#flows-the-unit-of-fairness): each keeps its level from request to request.
        by: Flow = FLOW.or("client");
        /// The gain margin that the loop is tuned for. Lower is faster, and nearer to oscillation.
        /// Why: with 10 it stands costs that double and readings that are a period late; the paper's 4 does not (Abdelzaher, §4.4).
        gain_margin: u32 = whole(3..=100).or(10);
    }
}

section! {
    /// Another reading that decides.
    pub(super) struct AlsoKeys {
        /// As `sensor` of the adaptation.
        sensor: Option<String> = TEXT.required("write sensor = \"…\", the name of a [[sensor]], or \"backlog\"");
        /// As `reference` of the adaptation.
        reference: Option<Reference> = ReferenceKind.optional("`\"80%\"`, or `20` for a queue");
    }
}

section! {
    /// A level of quality.
    pub(super) struct LevelKeys {
        /// What is put before the path, which is in normal form: `"/degraded_content"`. A client that asks for a path below a tree gets 404, and
        /// `Location` comes back without the tree. What the origin protects by path it must protect below the tree, too.
        tree: Option<String> = TREE.optional("nothing");
        /// The pool that takes the request, in place of its rule's or class's.
        pool: Option<String> = TEXT.optional("its rule's, or else its class's");
    }
}

const TREE: Text<String> = Text {
    expected: "a path such as \"/degraded_content\"",
    schema: || json!({ "pattern": "^(/[A-Za-z0-9._~-]+)+$", "examples": ["/degraded_content"] }),
    parse: tree,
};

fn tree(text: &str) -> Parsed<String> {
    let Some(rest) = text.strip_prefix('/') else { return Err(None) };
    let is_name = |name: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
        !matches!(name, "" | "." | "..") && name.bytes().all(plain)
    };
    match rest.split('/').all(is_name) && text.len() <= TREE_LEN_MAX {
        true => Ok(text.to_owned()),
        false => Err(Some(format!(
            "must be names of letters, digits and . _ ~ - with / before each, at most {TREE_LEN_MAX} bytes"
        ))),
    }
}

const TREE_LEN_MAX: usize = 256;
/// References without any other.
const UTILIZATION: Reference = Reference::Utilization(8000);
const QUEUE_LEN: Reference = Reference::QueueLen(20);

/// The adaptations of a policy.
#[derive(Default)]
pub(super) struct Adaptations {
    ids: Vec<AdaptationId>,
    pub(super) list: Vec<Adaptation>,
}

impl Adaptations {
    /// The adaptations, where each keeps the guarantees of these sites.
    pub(super) fn keeping(self, sites: Vec<Vec<SiteId>>) -> Vec<Adaptation> {
        let list = self.list.into_iter().zip(sites);
        list.map(|(it, sites)| Adaptation { sites, ..it }).collect()
    }

    /// Each, with its id.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Adaptation, AdaptationId)> {
        self.list.iter().zip(self.ids.iter().copied())
    }

    /// The adaptation of this name; reports one that does not exist.
    pub(super) fn named(&self, name: &str, place: &Place) -> Option<AdaptationId> {
        let names = self.list.iter().map(|it| it.name.as_str());
        find("adaptation", name, names, place).map(|index| self.ids[index])
    }

    /// What a rule says.
    pub(super) fn said(&self, said: &Option<String>, place: &Place) -> Option<AdaptationId> {
        match said {
            Some(name) => self.named(name, place),
            None => Some(AdaptationId::NONE),
        }
    }
}

/// The names of the pools that levels name.
pub(super) fn level_pools(raw: &[At<AdaptationKeys>]) -> Vec<String> {
    let levels = raw.iter().flat_map(|it| &it.value.level);
    levels.filter_map(|level| level.value.pool.clone()).collect()
}

/// The adaptations, of these pools and by these sensors. `is_whole`: those that are observed act, too.
pub(super) fn adaptations(
    raw: Vec<At<AdaptationKeys>>,
    is_whole: bool,
    sensors: &[Sensor],
    pools: &Pools,
    paths: Handling,
    mut known: Interning<'_, AdaptationId>,
) -> Adaptations {
    let mut adaptations = Adaptations::default();
    for At { value: raw, place } in raw {
        let Some((name, source)) = raw.name.zip(raw.sensor) else { continue };
        let name_place = place.key("name");
        let before = adaptations.list.iter().map(|it| it.name.as_str());
        check_unique("adaptation", &name, before, &name_place);
        let usual = (UTILIZATION, QUEUE_LEN);
        // After a fault, which has been reported, its name is still known.
        let reference = reference_of(&source, raw.reference, usual, sensors, &place);
        let reference = reference.unwrap_or(UTILIZATION);
        let also = |At { value: raw, place }: At<AlsoKeys>| {
            let source = raw.sensor?;
            let reference = reference_of(&source, raw.reference, usual, sensors, &place)?;
            Some(Watched { source: source.into(), reference })
        };
        let level = |At { value: raw, place }: At<LevelKeys>| {
            if raw.tree.is_some() && paths == Handling::AsReceived {
                place.fault_at(
                    "tree",
                    "needs paths in normal form: forwarding.path must not be \"as_received\"",
                );
            }
            let pool = raw.pool.and_then(|pool| pools.named(&pool, &place.key("pool")));
            Level { tree: raw.tree.map(Into::into), pool }
        };
        let adaptation = Adaptation {
            name,
            acts: is_whole || !raw.mode.is_observe(),
            source: source.into(),
            reference,
            also: raw.also.into_iter().filter_map(also).collect(),
            levels: raw.level.into_iter().map(level).collect(),
            refuses: raw.refuse,
            by: raw.by,
            sites: Vec::new(),
            costs: raw.cost.as_ref().and_then(|raw| costs(&raw.value, &raw.place)),
            gain_margin: f64::from(raw.gain_margin),
        };
        if let Err(fault) = adaptation.check()
            && place.is_sound()
        {
            match fault.strip_prefix("reference ") {
                Some(what) => place.fault_at("reference", what),
                None if fault.starts_with("also") => place.fault_at("also", fault),
                None if fault.starts_with("cost") => place.fault_at("cost", fault),
                None => place.fault_at("level", fault),
            }
        }
        adaptations.ids.push(known.id(&adaptation.name, &name_place));
        adaptations.list.push(adaptation);
    }
    adaptations
}

/// For `tiergate check`: a line for each.
pub(crate) fn words(plan: &Plan) -> Vec<String> {
    let words = |it: &Adaptation| {
        let levels = it.levels.iter().zip(1u8..).map(|(level, number)| {
            let pool = level.pool.and_then(|pool| plan.pool_name(pool));
            let does = [
                level.tree.as_ref().map(|tree| format!("from {tree}")),
                pool.map(|pool| format!("by pool {pool}")),
            ];
            let does: Vec<String> = does.into_iter().flatten().collect();
            match does.is_empty() {
                true => number.to_string(),
                false => format!("{number} {}", does.join(" ")),
            }
        });
        let levels: Vec<String> = levels.collect();
        if !it.acts {
            let full = levels.last().map_or("", |it| it);
            return format!("{}: only observed, and every answer is of level {full}", it.name);
        }
        let refuses = if it.refuses { "0 (refused), " } else { "" };
        let watched = it.watched().map(|Watched { source, reference }| {
            let source = match &*source {
                Inbound::BACKLOG => "the backlog".to_owned(),
                sensor => format!("sensor {sensor}"),
            };
            let reference = match reference {
                Reference::Utilization(parts) => show::share(f64::from(parts) / PARTS as f64),
                Reference::QueueLen(len) => len.to_string(),
            };
            format!("{source} stays at {reference}")
        });
        let watched: Vec<String> = watched.collect();
        let (levels, by, watched) = (levels.join(", "), &it.by, watched.join(" and "));
        format!("{}: levels {refuses}{levels}, so that {watched}; each by its {by}", it.name)
    };
    plan.adaptations.iter().map(words).collect()
}

/// An adaptation's name.
pub(crate) fn name(id: AdaptationId, plan: &Plan) -> &str {
    plan.adaptation(id).map_or("none", |it| it.name.as_str())
}
