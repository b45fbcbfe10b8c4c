/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Finds the TCP header of a packet. What it does not understand (fragments, tunnels, more than two VLAN tags or eight extension headers) it says nothing of, and such packets pass.
 */
#pragma once
#include "types.h"

#define TG_ETH_IPV4 0x0800
#define TG_ETH_IPV6 0x86dd
#define TG_ETH_VLAN 0x8100
#define TG_ETH_VLAN_OUTER 0x88a8
#define TG_TAGS_MAX 2
#define TG_EXTENSIONS_MAX 8
#define TG_HOP_BY_HOP 0
#define TG_TCP 6
#define TG_ROUTING 43
#define TG_FRAGMENT 44
#define TG_DESTINATION 60

#define TG_FIN 0x01
#define TG_SYN 0x02
#define TG_RST 0x04
#define TG_PSH 0x08
#define TG_ACK 0x10

struct tg_eth {
	__u8 to[6], from[6];
	__be16 protocol;
} __attribute__((packed));

struct tg_vlan {
	__be16 tag, protocol;
};

struct tg_ipv4 {
	__u8 version_len, tos;
	__be16 len, id, fragment;
	__u8 ttl, protocol;
	__u16 check;
	__be32 from, to;
};

struct tg_ipv6 {
	__be32 flow;
	__be16 payload;
	__u8 protocol, hops;
	struct tg_address from, to;
};

/* An extension header of IPv6 (RFC 8200 §4), as far as all of them have it. */
struct tg_extension {
	__u8 next, len, type, left; /* `len`: in units of eight bytes, behind the first eight */
	__u8 more[4];
};

struct tg_tcp {
	__be16 from, to;
	__be32 seq, ack;
	__u8 offset, flags;
	__be16 window;
	__u16 check, urgent;
};

struct tg_packet {
	struct tg_address client, local;
	__be16 client_port, local_port;
	__u8 flags; /* of the TCP header */
	__u8 is_v6;
	__u16 ip, tcp; /* where the headers begin */
	__u16 tcp_len; /* length of the TCP header as it says, 20 to 60 */
	__u16 data_len; /* bytes behind it, as the IP header says; without meaning where that says 0 before a hop-by-hop header */
	__u16 padding;
};

TG_INLINE void tg_mapped(struct tg_address *to, __be32 v4)
{
	to->words[0] = to->words[1] = 0;
	to->words[2] = tg_be32(0xffff);
	to->words[3] = v4;
}

/*
 * Steps over the extension headers of IPv6 that the system steps over, too: a SYN with one of them is a SYN as any other. Returns what is behind the last, 0 if that is not known.
 * `at` and `behind`, the number of bytes from there on, are moved.
 */
TG_INLINE __u8 tg_behind_extensions(__u8 next, const __u8 **at, const __u8 *end, __u32 *behind)
{
	for (int i = 0; i < TG_EXTENSIONS_MAX && next != TG_TCP; i++) {
		const struct tg_extension *header = (const void *)*at;
		if ((const __u8 *)(header + 1) > end)
			return 0;
		__u32 more = 0;
		if (next == TG_FRAGMENT) {
			/* Of a whole packet: the first fragment, behind which none comes. */
			if (header->type || header->left & 0xf9)
				return 0;
		} else if (next == TG_ROUTING && header->left) {
			/* For somebody else. */
			return 0;
		} else if (next == TG_ROUTING || next == TG_HOP_BY_HOP || next == TG_DESTINATION) {
			more = header->len;
		} else {
			return 0;
		}
		__u32 len = sizeof(*header) + 8 * more;
		if (*behind < len)
			return 0;
		*behind -= len;
		*at += len;
		next = header->next;
	}
	return next;
}

/* Whether it is a whole TCP packet whose headers lie between `data` and `end`. `extensions`, a constant: whether those of IPv6 may lie before. */
TG_INLINE int tg_parse(const __u8 *data, const __u8 *end, struct tg_packet *out, int extensions)
{
	const struct tg_eth *eth = (const void *)data;
	if ((const __u8 *)(eth + 1) > end)
		return 0;
	__be16 protocol = eth->protocol;
	const __u8 *at = (const __u8 *)(eth + 1);
	for (int i = 0; i < TG_TAGS_MAX; i++) {
		if (protocol != tg_be16(TG_ETH_VLAN) && protocol != tg_be16(TG_ETH_VLAN_OUTER))
			break;
		const struct tg_vlan *tag = (const void *)at;
		if ((const __u8 *)(tag + 1) > end)
			return 0;
		protocol = tag->protocol;
		at = (const __u8 *)(tag + 1);
	}
	__u32 behind;
	out->ip = at - data;
	if (protocol == tg_be16(TG_ETH_IPV4)) {
		const struct tg_ipv4 *ip = (const void *)at;
		if ((const __u8 *)(ip + 1) > end)
			return 0;
		__u32 header = (ip->version_len & 0x0f) * 4u;
		if (ip->version_len >> 4 != 4 || header < sizeof(*ip) || ip->protocol != TG_TCP)
			return 0;
		if (ip->fragment & tg_be16(0x3fff))
			return 0;
		__u32 len = tg_be16(ip->len);
		if (len < header)
			return 0;
		behind = len - header;
		tg_mapped(&out->client, ip->from);
		tg_mapped(&out->local, ip->to);
		out->is_v6 = 0;
		at += header;
	} else if (protocol == tg_be16(TG_ETH_IPV6)) {
		const struct tg_ipv6 *ip = (const void *)at;
		if ((const __u8 *)(ip + 1) > end)
			return 0;
		if (at[0] >> 4 != 6)
			return 0;
		behind = tg_be16(ip->payload);
		out->client = ip->from;
		out->local = ip->to;
		out->is_v6 = 1;
		at = (const __u8 *)(ip + 1);
		__u8 next = ip->protocol;
		/* As of a jumbogram: the system takes all that is there, whatever the options say. */
		if (extensions && next == TG_HOP_BY_HOP && !behind)
			behind = 0xffff;
		if (extensions && next != TG_TCP)
			next = tg_behind_extensions(next, &at, end, &behind);
		if (next != TG_TCP)
			return 0;
	} else {
		return 0;
	}
	const struct tg_tcp *tcp = (const void *)at;
	if ((const __u8 *)(tcp + 1) > end)
		return 0;
	__u32 header = (tcp->offset >> 4) * 4u;
	if (header < sizeof(*tcp) || behind < header)
		return 0;
	out->tcp = at - data;
	out->tcp_len = header;
	out->data_len = behind - header;
	out->client_port = tcp->from;
	out->local_port = tcp->to;
	out->flags = tcp->flags;
	out->padding = 0;
	return 1;
}

/* Whether it is the first packet of a connection. */
TG_INLINE int tg_is_syn(const struct tg_packet *packet)
{
	return (packet->flags & (TG_SYN | TG_ACK | TG_RST)) == TG_SYN;
}

/* The client as blocks know it: an IPv4 address, or an IPv6 network of 64 bits, which is one customer (RFC 6177). */
TG_INLINE void tg_client(struct tg_address *to, const struct tg_packet *packet)
{
	*to = packet->client;
	if (packet->is_v6)
		to->words[2] = to->words[3] = 0;
}
