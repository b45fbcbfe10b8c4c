//! Through which interface an address is reached, by the kernel's tables.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The interface through which an address is reached; `None`: through none. `is_loopback`: it is an address of this machine.
pub(super) fn interface(ip: IpAddr, is_loopback: bool) -> Option<String> {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/net/{file}")).ok();
    match ip.to_canonical() {
        _ if is_loopback => Some("lo".to_owned()),
        IpAddr::V4(ip) => v4(&read("route")?, ip),
        IpAddr::V6(ip) => v6(&read("ipv6_route")?, ip),
    }
}

/// By `/proc/net/route`: name, destination, gateway, flags, …, metric, mask.
fn v4(table: &str, ip: Ipv4Addr) -> Option<String> {
    let number = |hex: &str| u32::from_str_radix(hex, 16).ok();
    let wanted = u32::from_ne_bytes(ip.octets());
    let routes = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (destination, mask) = (number(fields.get(1)?)?, number(fields.get(7)?)?);
        let metric: u32 = fields.get(6)?.parse().ok()?;
        (wanted & mask == destination).then(|| (mask.count_ones(), metric, fields[0]))
    });
    best(routes)
}

/// By `/proc/net/ipv6_route`: destination, its prefix, source, its prefix, next hop, metric, …, name.
fn v6(table: &str, ip: Ipv6Addr) -> Option<String> {
    let wanted = ip.to_bits();
    let routes = table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let destination = u128::from_str_radix(fields.first()?, 16).ok()?;
        let prefix = u32::from_str_radix(fields.get(1)?, 16).ok()?;
        let metric = u32::from_str_radix(fields.get(5)?, 16).ok()?;
        let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
        let name = *fields.last()?;
        let leads = wanted & mask == destination & mask && name != "lo";
        leads.then_some((prefix, metric, name))
    });
    best(routes)
}

/// The longest prefix, of those the least metric.
fn best<'a>(routes: impl Iterator<Item = (u32, u32, &'a str)>) -> Option<String> {
    let best = routes.max_by_key(|(prefix, metric, _)| (*prefix, u32::MAX - metric))?;
    Some(best.2.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_leads() {
        // As a little-endian machine writes it, which all that run Tiergate are.
        let table = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
            eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\n\
            eth1\t00000000\t0100000A\t0003\t0\t0\t200\t00000000\n\
            inner\t00014D0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\n";
        let of = |ip: [u8; 4]| v4(table, ip.into());
        assert_eq!(of([10, 77, 1, 2]).as_deref(), Some("inner"));
        assert_eq!(of([8, 8, 8, 8]).as_deref(), Some("eth0"), "the lesser metric");
        assert_eq!(v4("Iface\n", [8, 8, 8, 8].into()), None);
        let table = "fd000000000000000000000000000000 40 00000000000000000000000000000000 00 \
            00000000000000000000000000000000 00000100 00000001 00000000 00000001 eth2\n\
            00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
            fe800000000000000000000000000001 00000400 00000001 00000000 00000003 eth0\n\
            00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
            00000000000000000000000000000000 ffffffff 00000001 00000000 00200200 lo\n";
        let of = |ip: &str| v6(table, ip.parse().expect("an address"));
        assert_eq!(of("fd00::7").as_deref(), Some("eth2"));
        assert_eq!(of("2001:db8::1").as_deref(), Some("eth0"));
        assert_eq!(interface([127, 0, 0, 1].into(), true).as_deref(), Some("lo"));
    }
}
