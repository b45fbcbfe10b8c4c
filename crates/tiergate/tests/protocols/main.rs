//! Clients in one process with the gateway: what has a meaning over HTTP/1.1 and over HTTP/2 runs over
//! both, from one table for each subject, by hyper's client ([`side`]). The files that begin with a
//! protocol's name have what only that protocol has; over HTTP/2, by the `h2` crate's client, curl and
//! h2load.

#[path = "../support/mod.rs"]
mod support;

/// Each case, over each protocol.
macro_rules! over_both {
    ($($case:ident)*) => {
        mod http1 {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::side::Side::Http1).await;
            })*
        }
        mod http2 {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::side::Side::Http2).await;
            })*
        }
    };
}

mod abandoned;
mod faults;
mod forwarding;
mod http1_connections;
mod http2_classes;
mod http2_limits;
mod http2_peers;
mod http2_streams;
mod importance;
mod origin;
mod paths;
mod queueing;
mod servers;
mod side;
mod slow;
mod spooled;
mod world;
