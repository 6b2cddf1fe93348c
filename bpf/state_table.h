/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A drive's table of requests in flight. Callers hold the drive's lock, or only read. */
#ifndef TRIMTAB_STATE_TABLE_H
#define TRIMTAB_STATE_TABLE_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "state.h"
#include "state_maps.h"

/* For Fibonacci hashing. */
#define PHI 0x9e3779b97f4a7c15ULL

/* Slots have numbers from 1: 0 is none. */
#define slot_numbered(work, number) (&(work)->slots[((number) - 1) & (ST_SLOTS - 1)])

/*
 * The home bucket of a key. The kernel allocates requests side by side, each of more than
 * 256 bytes. Those of 16 KiB share a page of slots, since a TLB miss costs as much as a
 * cache miss, and no two of them share a slot.
 */
static __always_inline __u32 home_bucket(__u64 key)
{
	__u32 slot = ((key >> 14) * PHI) >> (64 - ST_SLOT_BITS + 6) << 6 | (key >> 8 & 63);

	/* The compiler could prove the bound and drop the mask; the verifier of Linux 6.1
	 * cannot. */
	barrier_var(slot);
	return slot & (ST_SLOTS - 1);
}

/* The number of the slot with this key in its probe window; 0: there is none. Rarely
 * needed, so a separate function keeps it out of the hot code. */
__noinline int st_find_displaced(__u32 index, __u64 of, __u64 key)
{
	struct st_work *work = bpf_map_lookup_elem(&st_works, &index);
	__u32 first = (of * PHI) >> (64 - ST_SLOT_BITS), i;

	if (!work)
		return 0;
	for (i = 0; i < ST_PROBE_WINDOW; i++)
		if (work->slots[(first + i) & (ST_SLOTS - 1)].key == key)
			return ((first + i) & (ST_SLOTS - 1)) + 1;
	return 0;
}

/* The number of the slot with this key; 0: there is none. */
static __always_inline __u32 find(__u32 index, struct st_work *work, __u64 key)
{
	__u32 slot = home_bucket(key);

	if (work->slots[slot].key == key)
		return slot + 1;
	return work->displaced ? st_find_displaced(index, key, key) : 0;
}

/* Takes a free slot for a key; 0: there is none. */
static __always_inline __u32 take(__u32 index, struct st_work *work, __u64 key)
{
	__u32 number = home_bucket(key) + 1;

	if (work->slots[number - 1].key) {
		number = st_find_displaced(index, key, 0);
		if (!number)
			return 0;
		work->displaced++;
	}
	slot_numbered(work, number)->key = key;
	return number;
}

static __always_inline void release(struct st_work *work, __u32 number)
{
	struct st_slot *slot = slot_numbered(work, number);

	if (work->displaced && number - 1 != home_bucket(slot->key))
		work->displaced--;
	slot->key = 0;
}

#endif
