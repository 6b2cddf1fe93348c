/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A drive's table of requests on their way. Whoever calls holds the drive's lock,
 * or only looks. */
#ifndef TRIMTAB_STATE_TABLE_H
#define TRIMTAB_STATE_TABLE_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "state.h"

/* For Fibonacci hashing. */
#define PHI 0x9e3779b97f4a7c15ULL

/* Slots have numbers from 1: 0 is none. */
#define bucket_of(work, number) (&(work)->buckets[((number) - 1) / ST_WAYS & (ST_BUCKETS - 1)])
#define slot_numbered(work, number) (&bucket_of(work, number)->slots[((number) - 1) & (ST_WAYS - 1)])
#define key_numbered(work, number) (bucket_of(work, number)->keys[((number) - 1) & (ST_WAYS - 1)])

/*
 * The bucket that a key is looked for in first. The kernel allocates requests side
 * by side: those of 16 KiB share a page of 8 buckets, since a miss in the TLB costs
 * as much as one in the cache.
 */
static __always_inline __u32 near(__u64 key)
{
	__u32 bucket = (((key >> 14) * PHI) >> (64 - ST_BUCKET_BITS + 3) << 3) |
		       (key >> 6) * PHI >> 61;

	/* The compiler knows that it is less than that, and would leave the mask
	 * out; the verifier of Linux 6.1 does not know. */
	barrier_var(bucket);
	return bucket & (ST_BUCKETS - 1);
}

/* The other one, anywhere. */
static __always_inline __u32 far(__u64 key)
{
	return (key * PHI) >> (64 - ST_BUCKET_BITS);
}

/* The number (from 1) of the slot with this key in a bucket; 0: there is none. */
static __always_inline __u32 find_in(struct st_work *work, __u32 bucket, __u64 key)
{
	__u64 *keys = work->buckets[bucket].keys;
	__u32 way;

#pragma unroll
	for (way = 0; way < ST_WAYS; way++)
		if (keys[way] == key)
			return bucket * ST_WAYS + way + 1;
	return 0;
}

static __always_inline __u32 find(struct st_work *work, __u64 key)
{
	__u32 number = find_in(work, near(key), key);

	return number || !work->astray ? number : find_in(work, far(key), key);
}

/* Takes a free slot for a key; 0: there is none. */
static __always_inline __u32 take(struct st_work *work, __u64 key)
{
	__u32 number = find_in(work, near(key), 0);

	if (!number) {
		number = find_in(work, far(key), 0);
		if (!number)
			return 0;
		work->astray++;
	}
	key_numbered(work, number) = key;
	return number;
}

static __always_inline void release(struct st_work *work, __u32 number)
{
	__u64 key = key_numbered(work, number);

	if (work->astray && (number - 1) / ST_WAYS != near(key))
		work->astray--;
	key_numbered(work, number) = 0;
}

#endif
