//! What stands behind the keys of scheduling: policies, orders, costs.

use super::error::{Faults, Place, instead};
use super::read::Read;
use super::values::choice;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use tiergate_core::class::{Late, Order, WhenFull};
use tiergate_core::schedule::{Costing, Policy};
use toml::de::DeValue;

// The points that a score gains stand beside the word.
choice!(PolicyText(Policy):
    "strict" => Policy::Strict,
    "weighted" => Policy::Weighted,
    "shared" => Policy::Shared,
    "fixed" => Policy::Fixed,
    "deadline" => Policy::Deadline,
    "score" => Policy::Score { ageing: 0.0 },
    "fifo" => Policy::Fifo);

choice!(CostText(Costing):
    "requests" => Costing::Requests,
    "seconds" => Costing::Seconds,
    "bytes" => Costing::Bytes);

choice!(OrderText(Order):
    "fifo" => Order::Fifo,
    "adaptive-lifo" => Order::AdaptiveLifo,
    "deadline" => Order::Deadline,
    "score" => Order::Score);

choice!(FullText(WhenFull):
    "refuse-new" => WhenFull::RefuseNew,
    "drop-oldest" => WhenFull::DropOldest,
    "drop-least" => WhenFull::DropLeast);

choice!(LateText(Late):
    "refuse" => Late::Refuse,
    "last" => Late::Last);
