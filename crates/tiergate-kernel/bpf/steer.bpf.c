// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/*
 * Steers connections to a server that has a listener for each class: the network namespace's look-up of a listening socket finds that of the class of the client's network, whatever address and
 * port the client has connected to. What has no listener there goes to that of all others, and if there is none either, where it would have gone.
 *
 * map        | who reads          | who writes
 * state      | tg_steer           | the attached process
 * services   | tg_steer           | the same: of a generation that is not in force
 * networks_v*| tg_steer           | the same: under numbers of tables that are not in force
 * sockets    | tg_steer, tg_find  | tg_find; the system takes a socket out when it is closed
 * counts     | the same process   | tg_steer: each processor its own
 *
 * Sockets are those of a foreign process. They are found by their address (tg_find), as a packet to it would find them: no descriptor is taken from the process, and no right to trace it is needed.
 * Source: Voigt B 3.2 (prioritized listen queue).
 */
#include "kernel.h"
#include "packet.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define TG_TARGETS 33 /* the first is the listener of all others */
#define TG_PLACES 8 /* sockets of a target, by each version of IP: of processes that hand over to one another */
#define TG_INET 2
#define TG_INET6 10
#define TG_LISTEN 10

struct tg_state {
	__u32 generation, flags;
};

struct tg_service {
	__u32 generation;
	struct tg_address local;
	__be16 port;
	__u16 padding;
};

struct tg_network_key_v4 {
	__u32 prefix_len;
	__be32 table;
	__be32 client;
};

struct tg_network_key_v6 {
	__u32 prefix_len;
	__be32 table;
	struct tg_address client;
};

/* Where connections of a target went: to its own listener, to that of all others, or where they would have gone. */
struct tg_count {
	__u64 own, others, left;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_state);
} state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TG_SERVICES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tg_service);
	__type(value, __u32);
} services SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 131072);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tg_network_key_v4);
	__type(value, __u32);
} networks_v4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 131072);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tg_network_key_v6);
	__type(value, __u32);
} networks_v6 SEC(".maps");

/* For each target those for connections by IPv4, and behind them those for IPv6. */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, 2 * TG_TARGETS * TG_PLACES);
	__type(key, __u32);
	__type(value, __u64);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TG_TARGETS);
	__type(key, __u32);
	__type(value, struct tg_count);
} counts SEC(".maps");

/* Words of the context are read one by one: the verifier knows no longer ones. */
#define tg_word(x) (*(volatile __u32 *)&(x))

/* Gives the connection to the first socket of a target that can take it; whether there is one. Of sockets that share the address (SO_REUSEPORT) the system then picks one. */
TG_INLINE int assign(struct bpf_sk_lookup *ctx, __u32 target, __u32 is_v6)
{
	__u32 first = TG_PLACES * (2 * target + is_v6);
	for (__u32 it = 0; it < TG_PLACES; it++) {
		__u32 place = first + it;
		struct bpf_sock *socket = bpf_map_lookup_elem(&sockets, &place);
		if (!socket)
			continue;
		long error = bpf_sk_assign(ctx, socket, 0);
		bpf_sk_release(socket);
		if (!error)
			return 1;
	}
	return 0;
}

SEC("sk_lookup")
int tg_steer(struct bpf_sk_lookup *ctx)
{
	__u32 zero = 0;
	struct tg_state *in_force = bpf_map_lookup_elem(&state, &zero);
	if (!in_force || !in_force->flags || ctx->protocol != TG_TCP)
		return SK_PASS;
	__u32 family = ctx->family, is_v6 = family == TG_INET6;
	struct tg_service service = { .generation = in_force->generation };
	struct tg_address client = {};
	service.port = tg_be16((__u16)ctx->local_port);
	if (is_v6) {
		service.local.words[0] = tg_word(ctx->local_ip6[0]);
		service.local.words[1] = tg_word(ctx->local_ip6[1]);
		service.local.words[2] = tg_word(ctx->local_ip6[2]);
		service.local.words[3] = tg_word(ctx->local_ip6[3]);
		client.words[0] = tg_word(ctx->remote_ip6[0]);
		client.words[1] = tg_word(ctx->remote_ip6[1]);
		client.words[2] = tg_word(ctx->remote_ip6[2]);
		client.words[3] = tg_word(ctx->remote_ip6[3]);
	} else if (family == TG_INET) {
		tg_mapped(&service.local, tg_word(ctx->local_ip4));
		tg_mapped(&client, tg_word(ctx->remote_ip4));
	} else {
		return SK_PASS;
	}
	__u32 *table = bpf_map_lookup_elem(&services, &service);
	if (!table)
		return SK_PASS;
	__u32 *found;
	if (is_v6) {
		struct tg_network_key_v6 key = { .prefix_len = 160, .table = tg_be32(*table), .client = client };
		found = bpf_map_lookup_elem(&networks_v6, &key);
	} else {
		struct tg_network_key_v4 key = { .prefix_len = 64, .table = tg_be32(*table), .client = client.words[3] };
		found = bpf_map_lookup_elem(&networks_v4, &key);
	}
	if (!found)
		return SK_PASS;
	__u32 target = *found;
	struct tg_count *count = bpf_map_lookup_elem(&counts, &target);
	if (!count)
		return SK_PASS;
	if (assign(ctx, target, is_v6))
		count->own++;
	else if (target && assign(ctx, 0, is_v6))
		count->others++;
	else
		count->left++;
	return SK_PASS;
}

/* Which socket is looked for; in the place of a packet, whose first bytes are an Ethernet header. */
struct tg_order {
	__u8 header[16];
	__u32 place, is_v6;
	struct tg_address local;
	__be16 port;
	__be16 from; /* by which the system picks one of several sockets */
};

enum { TG_FAULT, TG_FOUND, TG_HELD, TG_NONE };

/* Puts the socket that listens at an address into its place, unless one is there. The attached process runs it (BPF_PROG_TEST_RUN) again and again, so that a server that was started anew is found; it is attached nowhere. */
SEC("tc")
int tg_find(struct __sk_buff *skb)
{
	struct tg_order *order = (void *)(long)skb->data;
	if ((void *)(order + 1) > (void *)(long)skb->data_end)
		return TG_FAULT;
	__u32 place = order->place;
	struct bpf_sock *held = bpf_map_lookup_elem(&sockets, &place);
	if (held) {
		bpf_sk_release(held);
		return TG_HELD;
	}
	struct bpf_sock_tuple tuple = {};
	__u32 size = sizeof(tuple.ipv4);
	if (order->is_v6) {
		/* From nowhere: no connection is of such a client, so that only what listens is found. */
		__builtin_memcpy(tuple.ipv6.daddr, order->local.words, 16);
		tuple.ipv6.dport = order->port;
		tuple.ipv6.sport = order->from;
		size = sizeof(tuple.ipv6);
	} else {
		tuple.ipv4.daddr = order->local.words[3];
		tuple.ipv4.dport = order->port;
		tuple.ipv4.sport = order->from;
	}
	struct bpf_sock *socket = bpf_sk_lookup_tcp(skb, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	if (!socket)
		return TG_NONE;
	long error = 1;
	if (socket->state == TG_LISTEN)
		error = bpf_map_update_elem(&sockets, &place, socket, BPF_NOEXIST);
	bpf_sk_release(socket);
	return error ? TG_FAULT : TG_FOUND;
}
