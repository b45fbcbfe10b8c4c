//! HTTP beside the request path, for a handful of programs and people: the admin listener, `tiergate agent`, `tiergate top`, and
//! sensors that ask agents. Everything is bounded: connections, heads, answers, time.

mod addresses;
mod client;
mod guests;
mod server;

pub(crate) use addresses::Addresses;
pub(crate) use client::get;
pub(crate) use server::{Answer, Crowd, HTML, JSON, Known, bind, plain, respond, serve};
