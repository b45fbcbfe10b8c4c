/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A token bucket in partitions, with an overflow on which any class may draw when its own partition is empty.
 * The same as tiergate-core's early::bucket, operation by operation; a test compares them. No division where a token is taken.
 * Source: Voigt B 3.1, Voigt D 2.4.
 */
#pragma once
#include "types.h"

#define TG_PARTITIONS 8
#define TG_TOKEN ((1ULL << 16) * 1000000000ULL)
#define TG_PROPORTION_BITS 16

struct tg_part {
	__u64 rate; /* what comes in a nanosecond */
	__u64 burst; /* how much is kept */
	__u64 key; /* the class */
};

struct tg_wanted {
	__u64 len;
	__u64 longest; /* the longest time that is settled at once, ns */
	struct tg_part overflow;
	struct tg_part parts[TG_PARTITIONS];
};

struct tg_tokens {
	struct tg_wanted wanted;
	__u64 settled; /* ns */
	__u64 overflow;
	__u64 parts[TG_PARTITIONS];
};

enum tg_took { TG_NOTHING, TG_OWN, TG_OVERFLOW };

TG_INLINE void tg_settle(struct tg_tokens *b, __u64 now)
{
	/* Of two processors' clocks one may be behind. */
	if (now <= b->settled)
		return;
	__u64 time = now - b->settled;
	if (time > b->wanted.longest)
		time = b->wanted.longest;
	b->settled = now;
	__u64 spilled = b->wanted.overflow.rate * time;
	for (__u32 i = 0; i < TG_PARTITIONS; i++) {
		if (i >= b->wanted.len)
			break;
		__u64 level = b->parts[i] + b->wanted.parts[i].rate * time;
		__u64 burst = b->wanted.parts[i].burst;
		if (level > burst) {
			spilled += level - burst;
			level = burst;
		}
		b->parts[i] = level;
	}
	__u64 level = b->overflow + spilled;
	b->overflow = level < b->wanted.overflow.burst ? level : b->wanted.overflow.burst;
}

TG_INLINE enum tg_took tg_take(struct tg_tokens *b, __u64 now, __u32 partition)
{
	tg_settle(b, now);
	if (partition < TG_PARTITIONS && partition < b->wanted.len && b->parts[partition] >= TG_TOKEN) {
		b->parts[partition] -= TG_TOKEN;
		return TG_OWN;
	}
	if (b->overflow >= TG_TOKEN) {
		b->overflow -= TG_TOKEN;
		return TG_OVERFLOW;
	}
	return TG_NOTHING;
}

TG_INLINE __u64 tg_in_proportion(__u64 level, __u64 burst, __u64 wanted)
{
	if (burst == wanted)
		return level;
	__u64 step = burst >> TG_PROPORTION_BITS;
	if (step == 0)
		return wanted;
	__u64 part = level / step;
	if (part > 1ULL << TG_PROPORTION_BITS)
		part = 1ULL << TG_PROPORTION_BITS;
	return part * (wanted >> TG_PROPORTION_BITS);
}

/* A full one. */
TG_INLINE void tg_fill(struct tg_tokens *b, __u64 now, const struct tg_wanted *wanted)
{
	b->settled = now;
	b->overflow = wanted->overflow.burst;
	b->wanted.len = wanted->len;
	b->wanted.longest = wanted->longest;
	b->wanted.overflow = wanted->overflow;
	for (__u32 i = 0; i < TG_PARTITIONS; i++) {
		b->wanted.parts[i] = wanted->parts[i];
		b->parts[i] = wanted->parts[i].burst;
	}
}

/* Another rate, other bursts and shares: each class keeps what it has, and all the overflow, in proportion to the bursts. */
TG_INLINE void tg_reconfigure(struct tg_tokens *b, __u64 now, const struct tg_wanted *wanted)
{
	__u64 levels[TG_PARTITIONS];
	tg_settle(b, now);
	__u64 settled = b->settled;
	__u64 overflow = tg_in_proportion(b->overflow, b->wanted.overflow.burst, wanted->overflow.burst);
	for (__u32 i = 0; i < TG_PARTITIONS; i++) {
		levels[i] = wanted->parts[i].burst;
		for (__u32 old = 0; old < TG_PARTITIONS; old++) {
			if (i < wanted->len && old < b->wanted.len && b->wanted.parts[old].key == wanted->parts[i].key) {
				levels[i] = tg_in_proportion(b->parts[old], b->wanted.parts[old].burst, wanted->parts[i].burst);
				break;
			}
		}
	}
	tg_fill(b, settled, wanted);
	b->overflow = overflow;
	for (__u32 i = 0; i < TG_PARTITIONS; i++)
		b->parts[i] = levels[i];
}
