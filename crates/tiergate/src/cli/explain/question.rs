//! The question, as given on the command line.

use std::net::IpAddr;

/// The request that is asked about, as given on the command line.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Question {
    // With or without a version behind it; the target may be absolute.
    /// The request, such as 'GET /x'
    #[arg(long, value_name = "METHOD TARGET")]
    pub request: String,
    /// A header of the request; may be given several times
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// The address that it comes from; loopback if not given. If that is trusted, X-Forwarded-For names the client
    #[arg(long, value_name = "ADDRESS")]
    pub client: Option<IpAddr>,
    /// The host, as by a Host header
    #[arg(long)]
    pub host: Option<String>,
    /// What else is known of client and connection.
    #[command(flatten)]
    pub known: Known,
}

/// What the gateway would know about a client and its connection.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Known {
    /// The listener, by its name or address; the first if not given
    #[arg(long, value_name = "LISTENER")]
    pub listener: Option<String>,
    /// The address that the client connected to; else the listener's
    #[arg(long, value_name = "ADDRESS")]
    pub destination: Option<IpAddr>,
    /// The server name that the client asked for in its TLS handshake
    #[arg(long, value_name = "HOST")]
    pub sni: Option<String>,
    /// The client's verified name
    #[arg(long, value_name = "HOST")]
    pub client_name: Option<String>,
    /// The client's country, such as DE
    #[arg(long, value_name = "XX", value_parser = country)]
    pub country: Option<[u8; 2]>,
    /// The client's autonomous system
    #[arg(long, value_name = "NUMBER")]
    pub asn: Option<u32>,
    /// The name in the client's verified certificate
    #[arg(long, value_name = "NAME")]
    pub certificate: Option<String>,
    /// The verified subject of a token or key
    #[arg(long, value_name = "NAME")]
    pub subject: Option<String>,
    /// The code point of the client's packets, 0 to 63
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(0..64))]
    pub dscp: Option<u8>,
}

fn country(text: &str) -> Result<[u8; 2], String> {
    match text.to_ascii_uppercase().as_bytes() {
        [one, two] if one.is_ascii_uppercase() && two.is_ascii_uppercase() => Ok([*one, *two]),
        _ => Err("must be two letters such as DE".to_owned()),
    }
}
