//! What the kernel may refuse before a connection exists: which connections of a policy's listeners are policed by their first packet, and with which bucket.
//!
//! A policer goes early where the client's address and the listener decide that *every* request of a connection is subject to it. What they do not decide stays with the gateway, which also
//! decides again on what the kernel lets through. So a packet is dropped only for want of a token that each of the connection's requests would need.
//!
//! A rule is found by the first match, but the kernel's table by the longest prefix. Two networks are nested or disjoint. So the rules that match an address whose longest prefix is `p`
//! are those with a network around `p`, and the first of them is what the table says of `p`.
//!
//! | file | what it has |
//! |---|---|
//! | `mod` | which policer the connections from each network are subject to |
//! | `rules` | the rules by network, and what the first of them says |
//! | `bucket` | the kernel's token bucket |
//! | `heads` | which first requests are policed, by method and path |
//! | `overload` | when the kernel polices at all |
//! | `queue` | the same before a server that has no gateway |
//! | `steer` | which listener of such a server a connection is for |
//! | `unseen` | which first requests that the kernel refuses a controller has to know of |
//! | `again` | when what the kernel has refused is tried again |
//! | `ranges` | networks as ranges that do not overlap, for nftables |
//! | `limit` | a bucket by the limits of nftables |
//! | `pace` | how these follow a controller's rate |
//! | `trie` | networks of IPv4 as the kernel reads them |
//!
//! The gateway asks for no token where a rule refuses. So connections from networks that a rule refuses, whatever they ask for, have a bucket of their own: a flood of them is kept out as any other, and not at the cost of those who share a
//! policer with them.
//!
//! Source: Voigt B §3.1 (SYN policing by addresses and ports), Voigt D §2.4 (partitions). What may go early: ours.

pub mod again;
pub mod bucket;
pub mod heads;
pub mod limit;
pub mod overload;
pub mod pace;
pub mod queue;
pub mod ranges;
mod rules;
pub mod steer;
pub mod trie;
pub mod unseen;

pub use rules::Late;

use crate::classify::rule::Rule;
use crate::names::{ClassId, PolicerId};
use crate::plan::Plan;
use bucket::{NoBucket, Wanted};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rules::{Found, Index};
use std::collections::HashSet;

/// Most networks of all listeners together: what the kernel's table holds of one policy.
pub const NETWORKS_MAX: usize = 60_000;
/// Most buckets.
pub const BUCKETS_MAX: usize = 500;
/// Stands for no policer in [`Early::policers`]: whose connections draw on this bucket are refused by a rule, and do not draw on what others need.
pub const REFUSED: PolicerId = PolicerId::NONE;

/// What of a policy decides which connections are policed.
#[derive(Clone, Copy, Debug)]
pub struct Policing<'a> {
    /// The rules, first match first.
    pub rules: &'a [Rule],
    /// Policers and classes.
    pub plan: &'a Plan,
    /// The class of requests that no rule matches; `None`: a score decides.
    pub default_class: Option<ClassId>,
    /// Peers that say who their clients are: nothing is known of these by their address.
    pub trusted: &'a [IpNet],
    /// By listener: whether all of its peers are such, or its port is not ours alone.
    pub proxied: &'a [bool],
}

/// What becomes of the connections from a network, unless a smaller one has an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which clients.
    pub network: IpNet,
    /// Place in [`Early::policers`]; `None`: they pass.
    pub bucket: Option<u16>,
    /// The partition of the bucket that they draw on; `None`: on its overflow only.
    pub partition: Option<u8>,
    /// Whether the gate may spare requests of theirs although it blocks the client.
    pub may_be_spared: bool,
    /// Whether they speak for other clients, so that they are never blocked.
    pub is_trusted: bool,
}

/// What the kernel is to do at the first packet of connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Early {
    /// The policers that have a bucket, and [`REFUSED`].
    pub policers: Vec<PolicerId>,
    /// The policer that [`REFUSED`] has as many tokens as: the fastest of those that its connections would else be subject to.
    pub refused_like: Option<PolicerId>,
    /// By listener; the networks of all IPv4 and of all IPv6 clients come first.
    pub listeners: Vec<Vec<Entry>>,
    /// By rule: what becomes of its policer; `None`: it has none.
    pub rules: Vec<Option<Stage>>,
    /// The same of policers that classes have, and of that of the site.
    pub others: Vec<(PolicerId, Stage)>,
}

/// Where a policer is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// In the kernel while it polices, and in the gateway.
    Early,
    /// In the gateway.
    Late(Late),
}

impl Early {
    /// What may go early of a policy. O(rules × length of an address).
    pub fn of(policing: &Policing<'_>) -> Early {
        let count = policing.proxied.len();
        let mut making = Making {
            policing,
            early: Early { listeners: vec![Vec::new(); count], ..Early::default() },
            late: None,
        };
        for listener in 0..count {
            making.listener(listener as u16);
        }
        making.finish()
    }

    /// How many networks have an entry.
    pub fn networks(&self) -> usize {
        self.listeners.iter().map(Vec::len).sum()
    }

    /// Place of a policer's bucket.
    pub fn bucket(&self, policer: PolicerId) -> Option<u16> {
        self.policers.iter().position(|it| *it == policer).map(|place| place as u16)
    }

    /// The policer by whose settings a bucket is made: its own, or that which [`REFUSED`] is like.
    pub fn settings_of(&self, id: PolicerId) -> PolicerId {
        self.refused_like.filter(|_| id == REFUSED).unwrap_or(id)
    }

    /// What becomes of a connection; `None`: nothing is said of the listener.
    pub fn entry(&self, listener: u16, client: std::net::IpAddr) -> Option<Entry> {
        let entries = self.listeners.get(usize::from(listener))?.iter();
        let around = entries.filter(|entry| entry.network.contains(&client));
        around.max_by_key(|entry| entry.network.prefix_len()).copied()
    }
}

struct Making<'a> {
    policing: &'a Policing<'a>,
    early: Early,
    late: Option<Late>,
}

impl Making<'_> {
    fn listener(&mut self, listener: u16) {
        // Who the clients of a proxy are, and how many, is not in the packet; nor which process gets a connection to a port that several have.
        if self.policing.proxied[usize::from(listener)] {
            return;
        }
        let index = Index::of(self.policing.rules, listener);
        let trusted: HashSet<IpNet> = self.policing.trusted.iter().map(IpNet::trunc).collect();
        let mut networks: Vec<IpNet> = vec![Ipv4Net::default().into(), Ipv6Net::default().into()];
        let mut known: HashSet<IpNet> = networks.iter().copied().collect();
        let named = index.networks().chain(trusted.iter().copied());
        networks.extend(named.filter(|network| known.insert(*network)));
        let mut entries = Vec::with_capacity(networks.len());
        for network in networks {
            let is_trusted = rules::around(network).any(|it| trusted.contains(&it));
            entries.push(match is_trusted {
                true => Entry {
                    network,
                    bucket: None,
                    partition: None,
                    may_be_spared: true,
                    is_trusted: true,
                },
                false => self.entry(&index, network),
            });
        }
        if self.early.networks() + entries.len() > NETWORKS_MAX {
            self.late = Some(Late::TooMany);
        }
        self.early.listeners[usize::from(listener)] = entries;
    }

    fn entry(&mut self, index: &Index<'_>, network: IpNet) -> Entry {
        let plan = self.policing.plan;
        let verdict = index.verdict(network);
        let class = match verdict {
            Found::Rule(rule) => rule.class.or(self.policing.default_class),
            Found::None => self.policing.default_class,
            Found::Perhaps => None,
        };
        let of_rule = match index.policer(network) {
            Found::Rule(rule) => rule.policer,
            Found::None | Found::Perhaps => None,
        };
        let of_class = class.and_then(|class| plan.class(class)?.policer);
        // Of several that apply the first that can: the gateway asks for a token of each.
        let policers = [of_rule, of_class, plan.site_policer];
        let bucket = policers.into_iter().flatten().find_map(|id| self.bucket(id, class));
        let is_refused = matches!(verdict, Found::Rule(rule) if rules::refuses_clients(rule));
        let bucket = match bucket {
            Some((like, _)) if is_refused => self.refused(like).map(|place| (place, None)),
            bucket => bucket,
        };
        let is_first = class.is_none_or(|class| plan.class_ids().first() == Some(&class));
        Entry {
            network,
            bucket: bucket.map(|(bucket, _)| bucket),
            partition: bucket.and_then(|(_, partition)| partition),
            may_be_spared: is_first && plan.classes.len() > 1,
            is_trusted: false,
        }
    }

    /// The bucket of a policer and the class's partition of it, if the kernel can police by it.
    fn bucket(&mut self, id: PolicerId, class: Option<ClassId>) -> Option<(u16, Option<u8>)> {
        let settings = self.policing.plan.policer(id)?;
        Wanted::of(settings, settings.rate).ok()?;
        let partition = match settings.shares.is_empty() {
            true => None,
            false => {
                let class = class?;
                settings.shares.iter().position(|share| share.class == class)
            }
        };
        let partition = partition.map(|place| place as u8);
        self.place(id).map(|bucket| (bucket, partition))
    }

    /// The bucket of connections that a rule refuses, which would else draw on this one. They have one together, as none of them is served.
    fn refused(&mut self, like: u16) -> Option<u16> {
        let of_bucket = self.early.policers[usize::from(like)];
        let rate = |id| self.policing.plan.policer(id).map(|it| it.rate);
        if self.early.refused_like.and_then(rate) < rate(of_bucket) {
            self.early.refused_like = Some(of_bucket);
        }
        self.place(REFUSED)
    }

    /// The place of a bucket, a new one if it has none; `None`: there are too many.
    fn place(&mut self, id: PolicerId) -> Option<u16> {
        let known = self.early.bucket(id);
        if known.is_none() && self.early.policers.len() == BUCKETS_MAX {
            self.late = Some(Late::TooMany);
            return None;
        }
        known.or_else(|| {
            self.early.policers.push(id);
            Some(self.early.policers.len() as u16 - 1)
        })
    }

    fn finish(mut self) -> Early {
        if self.late.is_some() {
            // A table without some of its networks would police whom it should let through.
            self.early.policers.clear();
            self.early.refused_like = None;
            self.early.listeners.iter_mut().for_each(Vec::clear);
        }
        let Policing { rules, plan, .. } = *self.policing;
        self.early.rules = rules.iter().map(|rule| self.stage_of(rule)).collect();
        let classes = plan.classes.iter().filter_map(|class| class.policer);
        let mut others: Vec<PolicerId> = classes.chain(plan.site_policer).collect();
        others.dedup();
        self.early.others =
            others.into_iter().map(|id| (id, self.stage(id, || Late::ClassUnknown))).collect();
        self.early
    }

    fn stage_of(&self, rule: &Rule) -> Option<Stage> {
        let id = rule.policer?;
        Some(match rules::asks_for_more(rule) {
            Some(part) => Stage::Late(Late::AsksFor(part)),
            None => self.stage(id, || Late::Behind),
        })
    }

    fn stage(&self, id: PolicerId, otherwise: impl FnOnce() -> Late) -> Stage {
        if self.early.bucket(id).is_some() {
            return Stage::Early;
        }
        let plan = self.policing.plan;
        let no_bucket = plan.policer(id).and_then(|it| Wanted::of(it, it.rate).err());
        let has_shares = plan.policer(id).is_some_and(|it| !it.shares.is_empty());
        Stage::Late(match (self.late, no_bucket) {
            (_, Some(why)) => Late::NoBucket(why),
            (Some(late), None) => late,
            _ if self.policing.proxied.iter().all(|it| *it) => Late::Proxied,
            _ if has_shares => Late::ClassUnknown,
            _ => otherwise(),
        })
    }
}

impl Late {
    /// Why, for a person.
    pub fn words(self) -> String {
        let bursts = bucket::TOKENS_MAX;
        match self {
            Late::AsksFor(part) => {
                format!("the rule asks for {part}, which the first packet does not have")
            }
            Late::Behind => "a rule before it may give the same clients another policer".to_owned(),
            Late::ClassUnknown => {
                "the class of its clients is not known by their address".to_owned()
            }
            Late::Proxied => {
                "proxies say who the clients are, or other processes share the port".to_owned()
            }
            Late::TooMany => format!(
                "more than {NETWORKS_MAX} networks or {BUCKETS_MAX} policers would go early"
            ),
            Late::NoBucket(NoBucket::Flows) => "each flow has a bucket of its own".to_owned(),
            Late::NoBucket(NoBucket::Shares) => {
                format!("more than {} classes have a share", bucket::PARTITIONS_MAX)
            }
            Late::NoBucket(NoBucket::Burst) => {
                format!("its bursts are more than {bursts} together")
            }
            Late::NoBucket(NoBucket::Rate) => "its rate is below 1/m or above 1000000/s".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
