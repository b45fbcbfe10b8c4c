//! Statements as the kernel's expressions: what reads a register, what writes it, and what decides.

use super::command::{Statement, Version};
use super::writer::Writer;
use tiergate_core::early::limit::Limit;

/// `NFT_OBJECT_COUNTER`, `NFT_OBJECT_LIMIT`.
pub(super) const COUNTER: u32 = 1;
pub(super) const LIMIT: u32 = 4;

const ACCEPT: i32 = 1;
const DROP: i32 = 0;
pub(super) const GOTO: i32 = -4;
/// The register that has the verdict.
const VERDICT: u32 = 0;
/// The first of 16 bytes, the one behind it, and the one 4 bytes behind it.
const REGISTER: u32 = 1;
const BEHIND_16: u32 = 2;
const BEHIND_4: u32 = 9;
/// Where bytes of a packet are counted from.
const NETWORK: u32 = 1;
const TRANSPORT: u32 = 2;
const TCP: u8 = 6;

/// A verdict, and where it leads to.
pub(super) fn verdict(data: &mut Writer, code: i32, chain: Option<&str>) {
    data.nested(2, |verdict| {
        verdict.number(1, code as u32);
        if let Some(chain) = chain {
            verdict.text(2, chain);
        }
    });
}

/// The kernel's expressions of a statement.
pub(super) fn statement(all: &mut Writer, statement: &Statement) {
    match statement {
        Statement::IsSyn => {
            protocol(all);
            payload(all, TRANSPORT, 13, 1, REGISTER);
            mask(all, &[0x16]);
            equals(all, &[2]);
        }
        Statement::From(set, version) => {
            version_is(all, *version);
            client(all, *version);
            if *version == Version::V6 {
                mask(all, &[[255; 8], [0; 8]].concat());
            }
            lookup(all, set, false);
        }
        Statement::ByClient(map, version) => {
            version_is(all, *version);
            client(all, *version);
            lookup(all, map, true);
        }
        Statement::ByService(map, version) => {
            version_is(all, *version);
            protocol(all);
            let (offset, len, behind) = match version {
                Version::V4 => (16, 4, BEHIND_4),
                Version::V6 => (24, 16, BEHIND_16),
            };
            payload(all, NETWORK, offset, len, REGISTER);
            payload(all, TRANSPORT, 2, 2, behind);
            lookup(all, map, true);
        }
        Statement::Limit(limit) => expression(all, "limit", |data| limit_of(data, limit)),
        Statement::LimitOf(name) => object(all, LIMIT, name),
        Statement::Count(name) => object(all, COUNTER, name),
        Statement::Accept => immediate(all, ACCEPT, None),
        Statement::Drop => immediate(all, DROP, None),
        Statement::Goto(chain) => immediate(all, GOTO, Some(chain)),
    }
}

fn expression(all: &mut Writer, name: &str, data: impl FnOnce(&mut Writer)) {
    all.nested(1, |expression| {
        expression.text(1, name);
        expression.nested(2, data);
    });
}

/// The rate and the burst.
pub(super) fn limit_of(data: &mut Writer, Limit { tokens, per, burst }: &Limit) {
    data.long(1, *tokens);
    data.long(2, per.seconds());
    data.number(3, *burst);
    // Packets, that go on while there are tokens.
    data.number(4, 0);
    data.number(5, 0);
}

/// `NFT_META_NFPROTO`
fn version_is(all: &mut Writer, version: Version) {
    meta(all, 15);
    let family = match version {
        Version::V4 => 2,
        Version::V6 => 10,
    };
    equals(all, &[family]);
}

/// `NFT_META_L4PROTO`
fn protocol(all: &mut Writer) {
    meta(all, 16);
    equals(all, &[TCP]);
}

fn meta(all: &mut Writer, key: u32) {
    expression(all, "meta", |data| {
        data.number(1, REGISTER);
        data.number(2, key);
    });
}

/// The address that the packet is from.
fn client(all: &mut Writer, version: Version) {
    match version {
        Version::V4 => payload(all, NETWORK, 12, 4, REGISTER),
        Version::V6 => payload(all, NETWORK, 8, 16, REGISTER),
    }
}

fn payload(all: &mut Writer, base: u32, offset: u32, len: u32, to: u32) {
    expression(all, "payload", |data| {
        data.number(1, to);
        data.number(2, base);
        data.number(3, offset);
        data.number(4, len);
    });
}

/// Leaves these bits.
fn mask(all: &mut Writer, bits: &[u8]) {
    expression(all, "bitwise", |data| {
        data.number(1, REGISTER);
        data.number(2, REGISTER);
        data.number(3, bits.len() as u32);
        data.nested(4, |mask| mask.bytes_of(1, bits));
        data.nested(5, |other| other.bytes_of(1, &vec![0; bits.len()]));
    });
}

fn equals(all: &mut Writer, value: &[u8]) {
    expression(all, "cmp", |data| {
        data.number(1, REGISTER);
        data.number(2, 0);
        data.nested(3, |other| other.bytes_of(1, value));
    });
}

fn lookup(all: &mut Writer, set: &str, is_map: bool) {
    expression(all, "lookup", |data| {
        data.text(1, set);
        data.number(2, REGISTER);
        if is_map {
            data.number(3, VERDICT);
        }
    });
}

fn object(all: &mut Writer, kind: u32, name: &str) {
    expression(all, "objref", |data| {
        data.number(1, kind);
        data.text(2, name);
    });
}

fn immediate(all: &mut Writer, code: i32, chain: Option<&str>) {
    expression(all, "immediate", |data| {
        data.number(1, VERDICT);
        data.nested(2, |value| verdict(value, code, chain));
    });
}
