// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/*
 * Polices SYNs: what a listener's rules say of the client's network, a token bucket for each rule, silent drop. Nothing else is ever dropped, and what is not understood passes.
 *
 * map       | who reads                | who writes
 * state     | tg_syn                   | the gateway
 * services  | tg_syn                   | the gateway: of a generation that is not in force
 * nodes     | tg_syn                   | the gateway: in places that no service in force leads to
 * rules_v6  | tg_syn                   | the gateway: under numbers of services that are not in force
 * buckets   | tg_syn, tg_configure     | the same, under the bucket's lock
 * counts    | the gateway              | tg_syn: each processor its own
 * blocked   | tg_syn                   | the gateway
 * let_in    | tg_syn                   | the gateway
 *
 * A set of rules is replaced by one number, state.generation. Source: Voigt B 3.1; Voigt C (let in).
 */
#include "kernel.h"
#include "bucket.h"
#include "packet.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define TG_POLICE 1u /* police by the rules */
#define TG_BLOCK 2u /* drop those of blocked clients whose requests the gate never spares */
#define TG_BLOCK_ALL 4u /* drop those of all blocked clients */
#define TG_LET_IN 8u /* some client may be let in */

#define TG_BUCKETS 1024
#define TG_NO_BUCKET 0xffff

struct tg_state {
	__u32 generation, flags;
};

struct tg_service {
	__u32 generation;
	struct tg_address local;
	__be16 port;
	__u16 padding;
};

/* Where a service's rules are: the first node of its trie, and the number that its networks of IPv6 have. */
struct tg_rules {
	__u32 root;
	__u32 number;
};

/* Of the trie of IPv4 clients (tiergate-core's early::trie): by four bits of an address the rule, or the place of the next node. */
struct tg_node {
	__u32 words[16];
};
#define TG_NEXT (1u << 31)

struct tg_rule_key_v6 {
	__u32 prefix_len;
	__be32 service;
	struct tg_address client;
};

/* A rule is a word, never 0: the bucket's number, the partition's, and flags. */
#define tg_rule_bucket(rule) ((rule) & 0xffff)
#define tg_rule_partition(rule) ((rule) >> 16 & 0xff)
#define TG_MAY_BE_SPARED (1u << 24)
#define TG_TRUSTED (1u << 25) /* proxies, with many clients behind them */

struct tg_bucket {
	struct tg_tokens tokens;
	struct bpf_spin_lock lock;
	__u32 padding;
};

struct tg_count {
	__u64 passed, overflow, dropped;
};

/* In the first place of counts: SYNs of our services while anything is on; let in; dropped because the client is blocked. */
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
	__type(value, struct tg_rules);
} services SEC(".maps");

/* As many as the rules need: with more, the gateway loads the program anew. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct tg_node);
} nodes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 131072);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tg_rule_key_v6);
	__type(value, __u32);
} rules_v6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_BUCKETS);
	__type(key, __u32);
	__type(value, struct tg_bucket);
} buckets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1 + TG_BUCKETS * (TG_PARTITIONS + 1));
	__type(key, __u32);
	__type(value, struct tg_count);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct tg_address);
	__type(value, __u64);
} blocked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct tg_address);
	__type(value, __u64);
} let_in SEC(".maps");

/* Whether a map has the client, and for longer than now. */
TG_INLINE int is_listed(void *map, const struct tg_packet *packet, __u64 now)
{
	struct tg_address client;
	tg_client(&client, packet);
	__u64 *until = bpf_map_lookup_elem(map, &client);
	return until && *until > now;
}

TG_INLINE __u32 find_v4(__u32 root, __u32 client)
{
	__u32 place = root + (client >> 28);
#pragma clang loop unroll(full)
	for (int shift = 24; shift >= 0; shift -= 4) {
		struct tg_node *node = bpf_map_lookup_elem(&nodes, &place);
		if (!node)
			return 0;
		__u32 word = node->words[client >> shift & 15];
		if (!(word & TG_NEXT))
			return word;
		place = word & ~TG_NEXT;
	}
	return 0;
}

/* 0 if there is none. */
TG_INLINE __u32 find_rule(const struct tg_rules *rules, const struct tg_packet *packet)
{
	if (!packet->is_v6)
		return find_v4(rules->root, tg_be32(packet->client.words[3]));
	struct tg_rule_key_v6 key = { .prefix_len = 160, .service = tg_be32(rules->number), .client = packet->client };
	__u32 *rule = bpf_map_lookup_elem(&rules_v6, &key);
	return rule ? *rule : 0;
}

TG_INLINE int police(__u32 rule, __u64 now)
{
	__u32 slot = tg_rule_bucket(rule), partition = tg_rule_partition(rule);
	struct tg_bucket *bucket = bpf_map_lookup_elem(&buckets, &slot);
	if (!bucket)
		return XDP_PASS;
	bpf_spin_lock(&bucket->lock);
	enum tg_took took = tg_take(&bucket->tokens, now, partition);
	bpf_spin_unlock(&bucket->lock);
	__u32 place = 1 + slot * (TG_PARTITIONS + 1) + (partition < TG_PARTITIONS ? partition : TG_PARTITIONS);
	struct tg_count *count = bpf_map_lookup_elem(&counts, &place);
	if (count) {
		count->passed += took != TG_NOTHING;
		count->overflow += took == TG_OVERFLOW;
		count->dropped += took == TG_NOTHING;
	}
	return took == TG_NOTHING ? XDP_DROP : XDP_PASS;
}

SEC("xdp")
int tg_syn(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct tg_packet packet = {};
	if (!tg_parse((void *)(long)ctx->data, (void *)(long)ctx->data_end, &packet, 1) || !tg_is_syn(&packet))
		return XDP_PASS;
	struct tg_state *in_force = bpf_map_lookup_elem(&state, &zero);
	if (!in_force || !in_force->flags)
		return XDP_PASS;
	__u32 flags = in_force->flags;
	struct tg_service service = { .generation = in_force->generation, .local = packet.local, .port = packet.local_port };
	struct tg_rules *rules = bpf_map_lookup_elem(&services, &service);
	if (!rules)
		return XDP_PASS;
	__u32 rule = find_rule(rules, &packet);
	if (!rule)
		return XDP_PASS;
	struct tg_count *all = bpf_map_lookup_elem(&counts, &zero);
	if (!all)
		return XDP_PASS;
	all->passed++;
	__u64 now = bpf_ktime_get_ns();
	if (flags & TG_LET_IN && is_listed(&let_in, &packet, now)) {
		all->overflow++;
		return XDP_PASS;
	}
	int may_block = flags & TG_BLOCK_ALL || (flags & TG_BLOCK && !(rule & TG_MAY_BE_SPARED));
	if (may_block && !(rule & TG_TRUSTED) && is_listed(&blocked, &packet, now)) {
		all->dropped++;
		return XDP_DROP;
	}
	if (!(flags & TG_POLICE) || tg_rule_bucket(rule) == TG_NO_BUCKET)
		return XDP_PASS;
	return police(rule, now);
}

struct tg_order {
	__u32 slot, is_new;
	struct tg_wanted wanted;
};

/* Gives a bucket other settings under its lock, from a "packet" that is an order. The gateway runs it (BPF_PROG_TEST_RUN); it is attached nowhere. Returns 1 if it has done it. */
SEC("xdp")
int tg_configure(struct xdp_md *ctx)
{
	struct tg_order *order = (void *)(long)ctx->data;
	if ((void *)(order + 1) > (void *)(long)ctx->data_end)
		return 0;
	__u32 slot = order->slot;
	int is_new = order->is_new;
	struct tg_bucket *bucket = bpf_map_lookup_elem(&buckets, &slot);
	if (!bucket)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	bpf_spin_lock(&bucket->lock);
	if (is_new)
		tg_fill(&bucket->tokens, now, &order->wanted);
	else
		tg_reconfigure(&bucket->tokens, now, &order->wanted);
	bpf_spin_unlock(&bucket->lock);
	return 1;
}
