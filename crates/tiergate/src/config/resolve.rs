//! From a policy as written to the policy as meant: bounds, references, defaults.
//!
//! After a fault each function goes on with the default, so that what follows is checked too; whoever
//! called looks at the faults before using anything.

use super::defaults;
use super::error::{Faults, Lines, Place};
use super::meant::{
    AccessLog, Buffering, Forwarding, HealthCheck, Limits, Listener, LogFormat, Origin, Policy,
    ProxyProtocol, Timeouts, Tls,
};
use super::raw;
use super::read::At;
use super::resolve_classes;
use super::resolve_identity;
use super::resolve_policers::Policers;
use super::resolve_rules;
use super::resolve_scheduling::scheduling;
use super::resolve_score;
use super::show;
use super::values::{File, Networks, Share, Size, SlotsText, Time};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tiergate_core::classify::flow::Flow;
use tiergate_core::control::Slots;
use tiergate_core::origin::retries::Allowance;
use tiergate_core::plan::Plan;

/// The policy as meant; `None`, or with faults, if it makes no sense.
pub(super) fn policy(
    raw: raw::Root,
    base: &Path,
    lines: &Lines<'_>,
    faults: &mut Faults,
) -> Option<Policy> {
    let mut on = Resolver { base, faults };
    let mut policers = Policers::named(raw.policer, on.faults);
    let flows = resolve_classes::class_flows(&raw.class);
    let scheduling = scheduling(raw.scheduling, raw.site, on.faults);
    let classes = resolve_classes::classes(raw.class, &scheduling, &mut policers, on.faults);
    policers.share_out(&classes, on.faults);
    let site_policer = raw.police.and_then(|police| policers.find(police, "site", on.faults));
    let default_class = resolve_rules::default_class(raw.default_class, &classes, on.faults);
    let trusted = on.trusted(raw.trusted);
    let listeners = on.listeners(raw.listener, trusted.is_empty());
    let mut named =
        resolve_rules::Named { classes: &classes, listeners: &listeners, policers: &mut policers };
    let rules = resolve_rules::rules(raw.rule, &mut named, lines, on.faults);
    let score = raw.score.map(|score| resolve_score::score(score, &classes, on.faults));
    let (refusal, refusal_page, ignore) = on.refusal(value(raw.refusal));
    let origin_place = raw.origin.as_ref().map(|origin| origin.place.clone());
    let origin_raw = on.need(
        raw.origin,
        &Place::default(),
        "origin",
        "write [origin] with servers = [\"host:port\"]",
    );
    let slots = on.slots(&origin_raw);
    let origin = on.origin(origin_raw.unwrap_or_default(), origin_place);
    let session = raw.session.and_then(|session| on.session(session));
    let (shedding, shed) = on.shedding(raw.shedding);
    let limits = on.limits(value(raw.limits));
    let timeouts = on.timeouts(value(raw.timeouts));
    let (forwarding, buffering) = on.forwarding(value(raw.forwarding));
    let threads = on.number(raw.threads, defaults::threads() as u64, 1..=defaults::THREADS_MAX);
    let access_log = raw.access_log.map(|log| on.access_log(log.value));
    let identity = on.identity(value(raw.names), raw.key, raw.token, raw.geo);
    if !on.faults.is_empty() {
        return None;
    }
    let beside = resolve_rules::Beside {
        default_class,
        score: score.as_ref(),
        flow: raw.flow.map_or(Flow::CLIENT, |flow| flow.value.0),
        flows,
    };
    let classifier = resolve_rules::compile(&rules, beside, on.faults)?;
    let rules: Vec<_> = rules.into_iter().map(|(rule, _)| rule).collect();
    let wanted = resolve_identity::wanted(&rules, score.as_ref());
    let plan = Plan {
        generation: 0,
        classes,
        rules: rules.len(),
        slots,
        policers: policers.finish(),
        site_policer,
        shedding,
        ignore,
        sites: scheduling.sites,
        between_sites: scheduling.between_sites,
        cost: scheduling.cost,
        queue_len_max: scheduling.queue_len_max,
    };
    if let Err(fault) = plan.check() {
        // All that it can say has been told above, at its line; the gate relies on this.
        on.faults.add(&Place::default(), fault);
    }
    Some(Policy {
        listeners,
        origin: origin?,
        plan,
        classifier,
        rules,
        score,
        session,
        shed,
        refusal,
        refusal_page,
        text: String::new(),
        trusted,
        forwarding,
        buffering,
        admin: raw.admin.map_or(Some(defaults::ADMIN), |admin| admin.value.0),
        access_log,
        limits,
        timeouts,
        identity,
        credentials: Arc::default(),
        geo: Arc::default(),
        warnings: Vec::new(),
        wanted,
        threads: threads as usize,
    })
}

/// What stands there, or a table with nothing in it.
fn value<T: Default>(at: Option<At<T>>) -> T {
    at.map(|at| at.value).unwrap_or_default()
}

/// What resolving needs everywhere.
pub(super) struct Resolver<'f> {
    /// Where relative file names begin.
    pub(super) base: &'f Path,
    pub(super) faults: &'f mut Faults,
}

impl Resolver<'_> {
    /// A value that must be there; `table` is where it is missing.
    pub(super) fn need<T>(
        &mut self,
        at: Option<At<T>>,
        table: &Place,
        key: &str,
        how: &str,
    ) -> Option<T> {
        if at.is_none() {
            self.faults.missing(table, key, how);
        }
        at.map(|at| at.value)
    }

    pub(super) fn number(
        &mut self,
        at: Option<At<u64>>,
        default: u64,
        range: RangeInclusive<u64>,
    ) -> u64 {
        within(at.map(|at| (at.value, at.place)), default, range, self.faults, |number| {
            number.to_string()
        })
    }

    fn size(&mut self, at: Option<At<Size>>, default: u64, range: RangeInclusive<u64>) -> u64 {
        within(at.map(|at| (at.value.0, at.place)), default, range, self.faults, show::bytes)
    }

    pub(super) fn time(&mut self, at: Option<At<Time>>, default: Duration) -> Duration {
        time(at, self.faults).unwrap_or(default)
    }

    pub(super) fn file(&self, file: File) -> PathBuf {
        self.base.join(file.0)
    }

    fn trusted(&mut self, raw: Option<At<Networks>>) -> Vec<ipnet::IpNet> {
        let Some(raw) = raw else {
            return Vec::new();
        };
        at_most(&raw.place, raw.value.len(), defaults::TRUSTED_MAX, "networks", self.faults);
        raw.value.into_iter().map(|network| network.value.0).collect()
    }

    fn listeners(
        &mut self,
        raw: Option<At<Vec<At<raw::Listener>>>>,
        nobody_trusted: bool,
    ) -> Vec<Listener> {
        let Some(raw) = raw else {
            return vec![Listener::plain(defaults::LISTEN)];
        };
        if raw.value.is_empty() {
            self.faults.add(&raw.place, "must not be empty; leave it out for the default");
        }
        at_most(&raw.place, raw.value.len(), defaults::LISTENERS_MAX, "listeners", self.faults);
        let mut listeners: Vec<Listener> = Vec::new();
        for At { value: raw, place } in raw.value {
            let address_place = raw.address.as_ref().map(|address| address.place.clone());
            let how = "write address = \"0.0.0.0:80\"";
            let Some(address) = self.need(raw.address, &place, "address", how) else {
                continue;
            };
            if listeners.iter().any(|other| other.address == address.0 && address.0.port() != 0) {
                let place = address_place.unwrap_or_default();
                self.faults.add(&place, format!("another listener has {} already", address.0));
            }
            if let Some(name) = &raw.name {
                if !resolve_rules::is_name(&name.value) {
                    self.faults.add(&name.place, resolve_rules::name_expected(&name.value));
                } else if listeners.iter().any(|other| other.name.as_ref() == Some(&name.value)) {
                    let message = format!("another listener is called {:?} already", name.value);
                    self.faults.add(&name.place, message);
                }
            }
            let proxied = raw.proxy_protocol.filter(|proxied| proxied.value);
            if let Some(proxied) = proxied.as_ref().filter(|_| nobody_trusted) {
                let message = "needs `trusted` to name the proxies, or every connection is closed";
                self.faults.add(&proxied.place, message);
            }
            listeners.push(Listener {
                address: address.0,
                name: raw.name.map(|name| name.value),
                tls: raw.tls.and_then(|tls| self.tls(tls)),
                proxy_protocol: match proxied {
                    Some(_) => ProxyProtocol::Required,
                    None => ProxyProtocol::Off,
                },
                http2: raw.http2.is_none_or(|http2| http2.value),
            });
        }
        listeners
    }

    fn tls(&mut self, At { value: raw, place }: At<raw::Tls>) -> Option<Tls> {
        let mut certificates = Vec::new();
        let alone = raw.certificate.is_some() || raw.key.is_some();
        if alone || raw.certificates.is_none() {
            let how = "name the PEM file of the certificate and its chain";
            let certificate = self.need(raw.certificate, &place, "certificate", how);
            let key = self.need(raw.key, &place, "key", "name the PEM file of the private key");
            certificates.extend(certificate.zip(key));
        }
        let several = raw.certificates;
        if let Some(several) = several.as_ref().filter(|several| several.value.is_empty()) {
            self.faults.add(&several.place, "must not be empty");
        }
        for At { value: raw, place } in several.into_iter().flat_map(|several| several.value) {
            let how = "name the PEM file of the certificate and its chain";
            let certificate = self.need(raw.certificate, &place, "certificate", how);
            let key = self.need(raw.key, &place, "key", "name the PEM file of the private key");
            certificates.extend(certificate.zip(key));
        }
        let client = self.client_authority(raw.client_ca, raw.client_crl, raw.client);
        let files = |(certificate, key)| (self.file(certificate), self.file(key));
        Some(Tls { certificates: certificates.into_iter().map(files).collect(), client })
    }

    fn slots(&mut self, origin: &Option<raw::Origin>) -> Slots {
        let Some(at) = origin.as_ref().and_then(|origin| origin.slots.clone()) else {
            return Slots::default();
        };
        match at.value {
            SlotsText::Adaptive => Slots::default(),
            SlotsText::Fixed(number) => {
                let at = At { value: number, place: at.place };
                Slots::Fixed(self.number(Some(at), 1, 1..=defaults::SLOTS_MAX) as u32)
            }
        }
    }

    fn origin(&mut self, raw: raw::Origin, place: Option<Place>) -> Option<Origin> {
        // Without the table itself, that it is missing has been said.
        let place = place?;
        let how = "write servers = [\"host:port\"]";
        let servers_place = raw.servers.as_ref().map(|servers| servers.place.clone());
        let servers = self.need(raw.servers, &place, "servers", how);
        if let Some((servers, place)) = servers.as_ref().zip(servers_place.as_ref()) {
            // A server that cannot be read is left out of the list, and has been told of.
            if servers.is_empty() && !self.faults.in_list(place) {
                self.faults.add(place, "must name at least one server");
            }
            at_most(place, servers.len(), defaults::SERVERS_MAX, "servers", self.faults);
            for (index, server) in servers.iter().enumerate() {
                if servers[..index].iter().any(|other| other.value.0 == server.value.0) {
                    self.faults
                        .add(&server.place, format!("stands here twice: {}", server.value.0));
                }
            }
        }
        Some(Origin {
            servers: servers?.into_iter().map(|server| server.value.0).collect(),
            health: raw.health.and_then(|health| self.health(health)),
            failures_max: self.number(raw.failures_max, defaults::FAILURES_MAX.into(), 1..=1000)
                as u32,
            retry_after: self.time(raw.retry_after, defaults::RETRY_AFTER),
            retries: self.retries(raw.retry_budget, raw.retry_budget_min),
            idle_connections_max: self.number(
                raw.idle_connections_max,
                defaults::IDLE_CONNECTIONS_MAX as u64,
                0..=65_536,
            ) as usize,
        })
    }

    /// How many retries there may be.
    fn retries(&mut self, budget: Option<At<Share>>, least: Option<At<u64>>) -> Allowance {
        let d = defaults::RETRIES;
        Allowance {
            share: budget.map_or(d.share, |budget| budget.value.0),
            floor: self.number(least, d.floor.into(), 0..=defaults::RETRIES_FLOOR_MAX) as u32,
        }
    }

    fn health(&mut self, At { value: raw, place }: At<raw::Health>) -> Option<HealthCheck> {
        let path_place = raw.path.as_ref().map(|path| path.place.clone());
        let path = self.need(raw.path, &place, "path", "write path = \"/\"")?;
        // It is written into a request line as it is.
        if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message =
                format!("must begin with `/` and have neither spaces nor controls, got {path:?}");
            self.faults.add(&path_place.unwrap_or_default(), message);
        }
        Some(HealthCheck {
            path,
            interval: self.time(raw.interval, defaults::HEALTH_INTERVAL),
            timeout: self.time(raw.timeout, defaults::HEALTH_TIMEOUT),
            fall: self.number(raw.fall, defaults::HEALTH_FALL.into(), 1..=1000) as u32,
            rise: self.number(raw.rise, defaults::HEALTH_RISE.into(), 1..=1000) as u32,
        })
    }

    fn limits(&mut self, raw: raw::Limits) -> Limits {
        let d = defaults::LIMITS;
        let target = raw.target_len_max.as_ref().map(|target| target.place.clone());
        let limits = Limits {
            request_head_max: self.size(
                raw.request_head_max,
                d.request_head_max as u64,
                1024..=1 << 20,
            ) as usize,
            target_len_max: self.size(raw.target_len_max, d.target_len_max as u64, 256..=1 << 20)
                as usize,
            fields_max: self.number(raw.fields_max, d.fields_max as u64, 1..=1000) as usize,
            response_head_max: self.size(
                raw.response_head_max,
                d.response_head_max as u64,
                1024..=1 << 20,
            ) as usize,
            request_body_max: self.size(raw.request_body_max, d.request_body_max, 0..=u64::MAX),
            connections_max: self.number(
                raw.connections_max,
                d.connections_max as u64,
                1..=10_000_000,
            ) as usize,
            http2_streams_max: self.number(
                raw.http2_streams_max,
                d.http2_streams_max.into(),
                1..=10_000,
            ) as u32,
            tunnels_max: self.number(raw.tunnels_max, d.tunnels_max as u64, 0..=10_000_000)
                as usize,
            buffers_max: self.size(raw.buffers_max, d.buffers_max as u64, 0..=usize::MAX as u64)
                as usize,
        };
        if let Some(place) = target.filter(|_| limits.target_len_max > limits.request_head_max) {
            let message = format!(
                "must be at most request_head_max, {}, got {}",
                show::bytes(limits.request_head_max as u64),
                show::bytes(limits.target_len_max as u64)
            );
            self.faults.add(&place, message);
        }
        limits
    }

    fn forwarding(&mut self, raw: raw::Forwarding) -> (Forwarding, Buffering) {
        let or = |at: Option<At<bool>>, default| at.map_or(default, |at| at.value);
        let forwarding = Forwarding {
            x_forwarded: or(raw.x_forwarded, defaults::FORWARDING.x_forwarded),
            forwarded: or(raw.forwarded, defaults::FORWARDING.forwarded),
            via: or(raw.via, defaults::FORWARDING.via),
        };
        let (d, range) = (defaults::BUFFERING, 0..=defaults::BUFFERING_MAX);
        let buffering = Buffering {
            request_max: self.size(raw.buffer_request, d.request_max as u64, range.clone())
                as usize,
            response_max: self.size(raw.buffer_response, d.response_max as u64, range) as usize,
        };
        (forwarding, buffering)
    }

    fn timeouts(&mut self, raw: raw::Timeouts) -> Timeouts {
        let d = defaults::TIMEOUTS;
        Timeouts {
            request_head: self.time(raw.request_head, d.request_head),
            request_body: self.time(raw.request_body, d.request_body),
            idle: self.time(raw.idle, d.idle),
            handshake: self.time(raw.handshake, d.handshake),
            connect: self.time(raw.connect, d.connect),
            response_head: self.time(raw.response_head, d.response_head),
            response_body: self.time(raw.response_body, d.response_body),
            write: self.time(raw.write, d.write),
            origin_idle: self.time(raw.origin_idle, d.origin_idle),
            tunnel_idle: self.time(raw.tunnel_idle, d.tunnel_idle),
            drain: self.time(raw.drain, d.drain),
        }
    }

    fn access_log(&mut self, raw: raw::AccessLog) -> AccessLog {
        AccessLog {
            path: raw.path.map(|file| self.file(file.value)),
            format: raw.format.map_or(LogFormat::Json, |format| format.value.0),
        }
    }
}

/// A time within its bounds; `None` if none is given, or after a fault.
pub(super) fn time(at: Option<At<Time>>, faults: &mut Faults) -> Option<Duration> {
    let At { value: Time(time), place } = at?;
    if time.is_zero() {
        faults.add(&place, "must be more than 0");
    } else if time > defaults::TIME_MAX {
        faults.add(
            &place,
            format!(
                "must be at most \"{}\", got \"{}\"",
                show::time(defaults::TIME_MAX),
                show::time(time)
            ),
        );
    } else {
        return Some(time);
    }
    None
}

/// A number within its bounds; the default if none is given, or after a fault.
pub(super) fn within(
    at: Option<(u64, Place)>,
    default: u64,
    range: RangeInclusive<u64>,
    faults: &mut Faults,
    show: impl Fn(u64) -> String,
) -> u64 {
    let Some((number, place)) = at else {
        return default;
    };
    if number < *range.start() {
        let least = show(*range.start());
        faults.add(&place, format!("must be at least {least}, got {}", show(number)));
    } else if number > *range.end() {
        let most = show(*range.end());
        faults.add(&place, format!("must be at most {most}, got {}", show(number)));
    } else {
        return number;
    }
    default
}

/// Says so if a list is too long.
pub(super) fn at_most(
    place: &Place,
    len: usize,
    max: usize,
    what: impl Display,
    faults: &mut Faults,
) {
    if len > max {
        faults.add(place, format!("must name at most {max} {what}, got {len}"));
    }
}
