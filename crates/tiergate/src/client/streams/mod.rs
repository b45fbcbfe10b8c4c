//! What HTTP/2 and HTTP/3 have in common: each request is a stream of a connection, with a task of its own.
//!
//! | | |
//! |---|---|
//! | [`head`] | a request's head |
//! | [`incoming`], [`upload`] | its body, on the way to the origin |
//! | [`answer`] | the heads of answers |
//! | [`counted`] | a stream's task, while it lives |
//! | [`tally`], [`parking`], [`window`] | what a connection knows of its streams, and how much it may hold for them |

pub(in crate::client) mod answer;
pub(in crate::client) mod counted;
pub(in crate::client) mod head;
pub(in crate::client) mod incoming;
pub(in crate::client) mod parking;
pub(in crate::client) mod tally;
pub(in crate::client) mod upload;
pub(crate) mod window;
