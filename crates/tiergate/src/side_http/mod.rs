//! HTTP beside the request path, for a handful of programs and people: the admin listener, `tiergate agent`, `tiergate top`, and
//! sensors that ask agents. Everything is bounded: connections, heads, answers, time.

mod client;
mod server;

pub(crate) use client::get;
pub(crate) use server::{Answer, HTML, JSON, bind, plain, respond, serve};
