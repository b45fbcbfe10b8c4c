// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/*
 * Polices the first request of connections by method and path, at the ingress of an interface: one without a token is answered from here and never reaches user space. What is not certain
 * passes, and user space polices again.
 *
 * map       | who reads                | who writes
 * state     | tg_http                  | the gateway
 * services  | tg_http                  | the gateway: of a generation that is not in force
 * paths     | tg_http                  | the gateway: under numbers of services that are not in force
 * answers   | tg_http                  | the gateway: of a bucket that is not in force
 * buckets   | tg_http, tg_configure    | the same, under the bucket's lock
 * counts    | the gateway              | tg_http: each processor its own
 * refused   | tg_http                  | tg_http: connections that it has answered, so that the client's last packets need not reach the system
 *
 * Source: Voigt B 3.3 (HTTP-header control).
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include "bucket.h"
#include "head.h"
#include "packet.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define TG_BUCKETS 1024
#define TG_NO_BUCKET 0xffff
#define TG_ANSWER_MAX 256
#define TG_SOON 1000000000ULL
/* What others have at the interface, programs and filters, is asked next. */
#define TCX_NEXT -1
#define TC_ACT_SHOT 2
#define TG_ESTABLISHED 1
#define TG_NEW_SYN_RECV 12
#define TG_LOADED 224 /* an Ethernet header, two tags, the longest IP and TCP headers, and what is looked at of the data */

struct tg_state {
	__u32 generation, flags;
};

struct tg_service {
	__u32 generation;
	struct tg_address local;
	__be16 port;
	__u16 padding;
};

struct tg_path {
	__u16 bucket;
	__u8 methods, padding;
};

struct tg_bucket {
	struct tg_tokens tokens;
	struct bpf_spin_lock lock;
	__u32 padding;
};

struct tg_count {
	__u64 passed, overflow, dropped;
};

/* What is answered: nothing but a reset, if it is empty. */
struct tg_answer {
	__u32 len; /* a multiple of four */
	__u32 sum; /* of its bytes, as bpf_csum_diff has it */
	__u8 bytes[TG_ANSWER_MAX];
};

struct tg_flow {
	struct tg_address client, local;
	__be16 client_port, local_port;
};

struct tg_scratch {
	__u8 bytes[256];
	struct tg_path_key key;
};

/* The kernel's own, relocated. */
struct tcp_request_sock {
	__u32 rcv_isn, snt_isn;
} __attribute__((preserve_access_index));

struct tcp_sock {
	__u32 rcv_nxt;
	__u64 bytes_received;
} __attribute__((preserve_access_index));

extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym;

#define MAP(kind, name, entries, key_type, value_type) \
	struct { \
		__uint(type, kind); \
		__uint(max_entries, entries); \
		__type(key, key_type); \
		__type(value, value_type); \
	} name SEC(".maps")

MAP(BPF_MAP_TYPE_ARRAY, state, 1, __u32, struct tg_state);
MAP(BPF_MAP_TYPE_ARRAY, buckets, TG_BUCKETS, __u32, struct tg_bucket);
MAP(BPF_MAP_TYPE_ARRAY, answers, TG_BUCKETS, __u32, struct tg_answer);
MAP(BPF_MAP_TYPE_PERCPU_ARRAY, counts, 1 + TG_BUCKETS, __u32, struct tg_count);
MAP(BPF_MAP_TYPE_PERCPU_ARRAY, scratch, 1, __u32, struct tg_scratch);
MAP(BPF_MAP_TYPE_LRU_HASH, refused, 65536, struct tg_flow, __u64);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TG_SERVICES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tg_service);
	__type(value, __u32);
} services SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tg_path_key);
	__type(value, struct tg_path);
} paths SEC(".maps");

/* Whether the packet is the first data of its connection: of one that waits for it to be accepted, or that has been accepted and has got nothing. */
TG_INLINE int is_first(struct __sk_buff *skb, const struct tg_packet *packet, __u32 seq, __u32 ack)
{
	struct bpf_sock_tuple tuple = {};
	__u32 size;
	if (packet->is_v6) {
		__builtin_memcpy(tuple.ipv6.saddr, packet->client.words, 16);
		__builtin_memcpy(tuple.ipv6.daddr, packet->local.words, 16);
		tuple.ipv6.sport = packet->client_port;
		tuple.ipv6.dport = packet->local_port;
		size = sizeof(tuple.ipv6);
	} else {
		tuple.ipv4.saddr = packet->client.words[3];
		tuple.ipv4.daddr = packet->local.words[3];
		tuple.ipv4.sport = packet->client_port;
		tuple.ipv4.dport = packet->local_port;
		size = sizeof(tuple.ipv4);
	}
	struct bpf_sock *sk = bpf_skc_lookup_tcp(skb, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return 0;
	int first = 0;
	if (sk->state == TG_NEW_SYN_RECV) {
		/* Not by bpf_skc_to_tcp_request_sock: that knows none of a listener that a map of sockets holds (steer.bpf.c). */
		struct tcp_request_sock *request = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_request_sock));
		first = seq == request->rcv_isn + 1 && ack == request->snt_isn + 1;
	} else if (sk->state == TG_ESTABLISHED) {
		struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
		if (tcp)
			first = tcp->bytes_received == 0 && seq == tcp->rcv_nxt;
	}
	bpf_sk_release(sk);
	return first;
}

TG_INLINE __u16 folded(__u64 sum)
{
	for (int i = 0; i < 4; i++)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

struct tg_pseudo_v4 {
	__be32 from, to;
	__u8 zero, protocol;
	__be16 len;
};

struct tg_pseudo_v6 {
	struct tg_address from, to;
	__be32 len;
	__u8 zero[3], protocol;
};

/* Makes a packet of headers, and of an answer if there is one, of the one that came. */
TG_INLINE int write(struct __sk_buff *skb, const struct tg_eth *eth, const struct tg_packet *packet, int to_client, __be32 seq,
		    __be32 ack, __u8 flags, const struct tg_answer *answer)
{
	const struct tg_address *from = to_client ? &packet->local : &packet->client;
	const struct tg_address *to = to_client ? &packet->client : &packet->local;
	__u32 len = answer ? answer->len : 0;
	if (len > TG_ANSWER_MAX)
		return -1;
	__u32 ip_len = packet->is_v6 ? sizeof(struct tg_ipv6) : sizeof(struct tg_ipv4);
	struct tg_tcp tcp = {
		.from = to_client ? packet->local_port : packet->client_port,
		.to = to_client ? packet->client_port : packet->local_port,
		.seq = seq,
		.ack = ack,
		.offset = 5 << 4,
		.flags = flags,
		.window = answer ? tg_be16(65535) : 0,
	};
	if (bpf_skb_change_tail(skb, sizeof(*eth) + ip_len + sizeof(tcp) + len, 0))
		return -1;
	if (bpf_skb_store_bytes(skb, 0, eth, sizeof(*eth), 0))
		return -1;
	__u64 sum;
	if (packet->is_v6) {
		struct tg_ipv6 ip = {
			.flow = tg_be32(6u << 28),
			.payload = tg_be16(sizeof(tcp) + len),
			.protocol = TG_TCP,
			.hops = 64,
			.from = *from,
			.to = *to,
		};
		struct tg_pseudo_v6 pseudo = { .from = *from, .to = *to, .len = tg_be32(sizeof(tcp) + len), .protocol = TG_TCP };
		sum = bpf_csum_diff(0, 0, (void *)&pseudo, sizeof(pseudo), 0);
		if (bpf_skb_store_bytes(skb, sizeof(*eth), &ip, sizeof(ip), BPF_F_INVALIDATE_HASH))
			return -1;
	} else {
		struct tg_ipv4 ip = {
			.version_len = 0x45,
			.len = tg_be16(sizeof(ip) + sizeof(tcp) + len),
			.fragment = tg_be16(0x4000),
			.ttl = 64,
			.protocol = TG_TCP,
			.from = from->words[3],
			.to = to->words[3],
		};
		ip.check = folded(bpf_csum_diff(0, 0, (void *)&ip, sizeof(ip), 0));
		struct tg_pseudo_v4 pseudo = { .from = ip.from, .to = ip.to, .protocol = TG_TCP, .len = tg_be16(sizeof(tcp) + len) };
		sum = bpf_csum_diff(0, 0, (void *)&pseudo, sizeof(pseudo), 0);
		if (bpf_skb_store_bytes(skb, sizeof(*eth), &ip, sizeof(ip), BPF_F_INVALIDATE_HASH))
			return -1;
	}
	sum = bpf_csum_diff(0, 0, (void *)&tcp, sizeof(tcp), sum);
	if (answer)
		sum += answer->sum;
	tcp.check = folded(sum);
	if (bpf_skb_store_bytes(skb, sizeof(*eth) + ip_len, &tcp, sizeof(tcp), 0))
		return -1;
	if (len && bpf_skb_store_bytes(skb, sizeof(*eth) + ip_len + sizeof(tcp), answer->bytes, len, 0))
		return -1;
	return 0;
}

/* Answers in the name of the server, and ends the connection on its side. */
TG_INLINE int refuse(struct __sk_buff *skb, const struct tg_eth *eth, const struct tg_packet *packet, __be32 seq, __be32 ack,
		     const struct tg_answer *answer)
{
	struct tg_eth back = { .protocol = eth->protocol };
	__builtin_memcpy(back.to, eth->from, 6);
	__builtin_memcpy(back.from, eth->to, 6);
	__be32 next = tg_be32(tg_be32(seq) + packet->data_len);
	__u8 flags = TG_RST | TG_ACK;
	if (answer->len) {
		struct tg_flow flow = {
			.client = packet->client,
			.local = packet->local,
			.client_port = packet->client_port,
			.local_port = packet->local_port,
		};
		__u64 now = bpf_ktime_get_ns();
		bpf_map_update_elem(&refused, &flow, &now, BPF_ANY);
		flags = TG_FIN | TG_PSH | TG_ACK;
	}
	if (write(skb, &back, packet, 1, ack, next, flags, answer->len ? answer : 0))
		return TC_ACT_SHOT;
	bpf_clone_redirect(skb, skb->ifindex, 0);
	if (write(skb, eth, packet, 0, seq, ack, TG_RST | TG_ACK, 0))
		return TC_ACT_SHOT;
	return TCX_NEXT;
}

SEC("tcx/ingress")
int tg_http(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct tg_state *in_force = bpf_map_lookup_elem(&state, &zero);
	struct tg_scratch *room = bpf_map_lookup_elem(&scratch, &zero);
	if (!in_force || !in_force->flags || !room)
		return TCX_NEXT;
	__u32 len = skb->len;
	if (len > TG_LOADED)
		len = TG_LOADED;
	if (len < sizeof(struct tg_eth) + sizeof(struct tg_ipv4) + sizeof(struct tg_tcp))
		return TCX_NEXT;
	if (bpf_skb_load_bytes(skb, 0, room->bytes, len))
		return TCX_NEXT;
	struct tg_packet packet = {};
	if (!tg_parse(room->bytes, room->bytes + len, &packet, 0) || packet.ip != sizeof(struct tg_eth))
		return TCX_NEXT;
	if (packet.flags & TG_RST)
		return TCX_NEXT;
	struct tg_service service = { .generation = in_force->generation, .local = packet.local, .port = packet.local_port };
	__u32 *number = bpf_map_lookup_elem(&services, &service);
	if (!number)
		return TCX_NEXT;
	struct tg_flow flow = {
		.client = packet.client,
		.local = packet.local,
		.client_port = packet.client_port,
		.local_port = packet.local_port,
	};
	if (packet.flags & TG_SYN) {
		/* Another connection of the same ports. */
		bpf_map_delete_elem(&refused, &flow);
		return TCX_NEXT;
	}
	/* What a client still sends that has our answer: acknowledgements, and the rest of a body. The system, which knows the connection no more, would reset it, and the client might lose the answer. Its FIN reaches the system, which resets. */
	__u64 *at = bpf_map_lookup_elem(&refused, &flow);
	if (!(packet.flags & TG_FIN) && at && bpf_ktime_get_ns() - *at < TG_SOON)
		return TC_ACT_SHOT;
	if (packet.data_len == 0)
		return TCX_NEXT;
	/* Several packets in one (GRO), or one that is not all here. */
	__u32 data = packet.tcp + packet.tcp_len;
	if (skb->gso_segs > 1 || skb->len < data + packet.data_len)
		return TCX_NEXT;
	if (packet.tcp > 134 || packet.tcp_len > 60)
		return TCX_NEXT;
	data &= 255;
	struct tg_tcp tcp;
	struct tg_eth eth;
	if (bpf_skb_load_bytes(skb, packet.tcp, &tcp, sizeof(tcp)) || bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)))
		return TCX_NEXT;
	/* The head to where it can be read with fixed bounds. */
	__u32 head_len = packet.data_len;
	if (head_len > TG_HEAD_MAX)
		head_len = TG_HEAD_MAX;
	if (head_len < 16)
		return TCX_NEXT;
	if (bpf_skb_load_bytes(skb, data, room->bytes, head_len))
		return TCX_NEXT;
	room->key.service = tg_be32(*number);
	__u32 method = tg_request(room->bytes, head_len, &room->key);
	if (!method)
		return TCX_NEXT;
	struct tg_path *path = bpf_map_lookup_elem(&paths, &room->key);
	if (!path || path->bucket == TG_NO_BUCKET || !(path->methods & method))
		return TCX_NEXT;
	__u32 slot = path->bucket, place = 1 + slot;
	struct tg_bucket *bucket = bpf_map_lookup_elem(&buckets, &slot);
	struct tg_answer *answer = bpf_map_lookup_elem(&answers, &slot);
	struct tg_count *count = bpf_map_lookup_elem(&counts, &place);
	if (!bucket || !answer || !count)
		return TCX_NEXT;
	if (!is_first(skb, &packet, tg_be32(tcp.seq), tg_be32(tcp.ack)))
		return TCX_NEXT;
	__u64 now = bpf_ktime_get_ns();
	bpf_spin_lock(&bucket->lock);
	enum tg_took took = tg_take(&bucket->tokens, now, TG_PARTITIONS);
	bpf_spin_unlock(&bucket->lock);
	if (took != TG_NOTHING) {
		count->passed++;
		return TCX_NEXT;
	}
	count->dropped++;
	return refuse(skb, &eth, &packet, tcp.seq, tcp.ack, answer);
}

struct tg_order {
	__u32 slot, is_new;
	struct tg_wanted wanted;
};

/* As that of syn.bpf.c. */
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
