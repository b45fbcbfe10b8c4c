//! HTTP beside the request path, for a handful of programs and people: the admin listener, `tiergate agent`, `tiergate top`, and
//! sensors that ask agents. Everything is bounded: connections, heads, answers, time.

mod addresses;
mod client;
mod content;
mod course;
mod guests;
mod server;

pub(crate) use addresses::Addresses;
pub(crate) use client::{get, post};
#[cfg(test)]
pub(crate) use content::Content;
pub(crate) use content::{Pieces, pieces};
pub(crate) use server::{
    Answer, CONNECTION_LIFE_MAX, Crowd, HTML, HangUp, JSON, Known, bind, plain, respond, serve,
};
