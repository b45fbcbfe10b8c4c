/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Types of the kernel's interface to programs (uapi linux/bpf.h, which does not change), as far as they are used here; and the same for the host, where the tests run this code. */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed int __s32;
typedef signed long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

#define TG_INLINE static __inline __attribute__((always_inline))

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define tg_be16(x) ((__be16)__builtin_bswap16(x))
#define tg_be32(x) ((__be32)__builtin_bswap32(x))
#else
#define tg_be16(x) ((__be16)(x))
#define tg_be32(x) ((__be32)(x))
#endif

/* Where the compiler must not draw conclusions that the verifier cannot follow. */
#define tg_opaque(x) asm volatile("" : "+r"(x))

struct tg_address {
	__be32 words[4]; /* IPv4: as ::ffff:a.b.c.d */
};
