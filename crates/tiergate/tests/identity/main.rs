//! Who a client is: by its address, its packets, what proxies say of it, and what it proves; and what it can forge of that.

#[path = "../support/mod.rs"]
mod support;

mod credentials;
mod dscp;
mod forgery;
mod forgery_identity;
mod marks;
mod proxy_protocol;
mod reverse_dns;
