/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What programs use of the kernel: uapi types, trimmed. Their layout does not change; where one of the kernel's own is used, it is relocated (CO-RE). */
#pragma once
#include "types.h"

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_SOCKMAP = 15,
};
enum { BPF_F_NO_PREALLOC = 1 };

/* Addresses and ports of listeners: of the rules in force and of those that replace them. */
#define TG_SERVICES (2 * 16384)
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum xdp_action { XDP_ABORTED, XDP_DROP, XDP_PASS };
enum sk_action { SK_DROP, SK_PASS };

struct bpf_spin_lock {
	__u32 val;
};

struct xdp_md {
	__u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

/* As far as the fields that are used; the kernel's has more behind them. */
struct __sk_buff {
	__u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority, ingress_ifindex, ifindex, tc_index;
	__u32 cb[5];
	__u32 hash, tc_classid, data, data_end, napi_id, family, remote_ip4, local_ip4;
	__u32 remote_ip6[4], local_ip6[4];
	__u32 remote_port, local_port, data_meta;
	__u64 flow_keys;
	__u64 tstamp;
	__u32 wire_len, gso_segs;
};

struct bpf_sock {
	__u32 bound_dev_if, family, type, protocol, mark, priority, src_ip4;
	__u32 src_ip6[4];
	__u32 src_port;
	__be16 dst_port, padding;
	__u32 dst_ip4;
	__u32 dst_ip6[4];
	__u32 state;
	__s32 rx_queue_mapping;
};

struct bpf_sock_tuple {
	union {
		struct {
			__be32 saddr, daddr;
			__be16 sport, dport;
		} ipv4;
		struct {
			__be32 saddr[4], daddr[4];
			__be16 sport, dport;
		} ipv6;
	};
};

/* What a socket is looked up for. */
struct bpf_sk_lookup {
	__u64 socket;
	__u32 family, protocol, remote_ip4;
	__u32 remote_ip6[4];
	__be16 remote_port, padding;
	__u32 local_ip4;
	__u32 local_ip6[4];
	__u32 local_port; /* in the machine's order of bytes */
	__u32 ingress_ifindex;
};

enum { BPF_F_INVALIDATE_HASH = 2 };
enum { BPF_F_CURRENT_NETNS = -1 };

#include <bpf/bpf_helpers.h>
