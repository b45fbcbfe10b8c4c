/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The request line at the start of a connection's first data: method and path, if the path is certainly what user space makes of it. Everything else is not judged.
 */
#pragma once
#include "types.h"

/* How many bytes of the data are looked at: what ends a path must be among them, since what comes last may say that its begin means nothing ("/.."). */
#define TG_HEAD_MAX 240
/* How many bytes of a path are compared; a longer one is matched by its begin. */
#define TG_PATH_MAX 64

enum tg_method { TG_GET = 1, TG_HEAD = 2, TG_POST = 4 };

struct tg_path_key {
	__u32 prefix_len; /* in bits: that of service and path */
	__be32 service;
	__u8 path[TG_PATH_MAX]; /* where it ends, a 0 follows */
};

/* A byte that stands for itself in a path, and in no request line ends one. */
TG_INLINE int tg_is_plain(__u8 byte)
{
	return byte > 0x20 && byte < 0x7f && byte != '%' && byte != '\\' && byte != ';' && byte != '#';
}

/*
 * Reads `len` bytes of a head, all TG_HEAD_MAX of which can be read; returns the method, or 0 if it is not to be judged.
 * Not judged are: other methods, other forms than a path, a path that is not in normal form or may not be ("//", "/.", %-encoding), and heads of which as much as is looked at ends before the path does.
 */
TG_INLINE __u32 tg_request(const __u8 *head, __u32 len, struct tg_path_key *key)
{
	__u32 method, at;
	if (len < 16)
		return 0;
	if (head[0] == 'G' && head[1] == 'E' && head[2] == 'T' && head[3] == ' ') {
		method = TG_GET;
		at = 4;
	} else if (head[0] == 'H' && head[1] == 'E' && head[2] == 'A' && head[3] == 'D' && head[4] == ' ') {
		method = TG_HEAD;
		at = 5;
	} else if (head[0] == 'P' && head[1] == 'O' && head[2] == 'S' && head[3] == 'T' && head[4] == ' ') {
		method = TG_POST;
		at = 5;
	} else {
		return 0;
	}
	__u8 before = 0;
	__u32 path_len = 0;
	for (__u32 i = 0;; i++) {
		__u32 from = at + i;
		if (i >= TG_HEAD_MAX || from >= TG_HEAD_MAX || from >= len)
			return 0;
		__u8 byte = head[from];
		if (i == 0 && byte != '/')
			return 0;
		if (byte == ' ' || byte == '?') {
			if (i < TG_PATH_MAX) {
				key->path[i] = 0;
				path_len = i + 1;
			}
			break;
		}
		if (!tg_is_plain(byte) || (before == '/' && (byte == '/' || byte == '.')))
			return 0;
		if (i < TG_PATH_MAX) {
			key->path[i] = byte;
			path_len = i + 1;
		}
		before = byte;
	}
	key->prefix_len = 32 + 8 * path_len;
	return method;
}
