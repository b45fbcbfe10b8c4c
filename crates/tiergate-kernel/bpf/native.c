/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The code of the programs, compiled for the host: what the tests compare and fuzz. */
#include "bucket.h"
#include "packet.h"

unsigned long tg_native_sizes(int which)
{
	return which == 0 ? sizeof(struct tg_wanted) : which == 1 ? sizeof(struct tg_tokens) : sizeof(struct tg_packet);
}

void tg_native_fill(struct tg_tokens *b, __u64 now, const struct tg_wanted *wanted)
{
	tg_fill(b, now, wanted);
}

void tg_native_reconfigure(struct tg_tokens *b, __u64 now, const struct tg_wanted *wanted)
{
	tg_reconfigure(b, now, wanted);
}

int tg_native_take(struct tg_tokens *b, __u64 now, __u32 partition)
{
	return tg_take(b, now, partition);
}

int tg_native_parse(const __u8 *data, __u64 len, struct tg_packet *out)
{
	return tg_parse(data, data + len, out, 1);
}
