/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The selected devices: a hash table from a device's number to its index, read with each
 * event. A number is in one bucket, and a bucket is one cache line, so that a look-up takes
 * the same time for any number of devices. User space builds the table before the programs
 * are attached: it searches for a multiplier with which no bucket overflows
 * (crates/trimtab-bpf/src/devices.rs).
 */
#ifndef TRIMTAB_DEVICES_H
#define TRIMTAB_DEVICES_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define DEV_WAYS 4
/* An unused index. */
#define DEV_NONE (~0U)

struct dev_entry {
	__u32 number; /* major << 20 | minor */
	__u32 index; /* DEV_NONE: the entry is free */
	/* The kernel's sequence number of the device (0: any). A number that is reused, for
	 * example by a loop device that is attached again, stands for another device. */
	__u64 diskseq;
};

struct dev_bucket {
	struct dev_entry entries[DEV_WAYS];
};

/* The bucket of a number is the upper bits of its product. */
struct dev_hash {
	__u32 multiplier;
	__u32 shift;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* user space sets it: 1 << (32 - shift) */
	__type(key, __u32);
	__type(value, struct dev_bucket);
} dev_buckets SEC(".maps");

/* Whether it is still the device that had this sequence number when it was selected. */
static __always_inline bool dev_is_same(struct gendisk *disk, __u64 diskseq)
{
	return !diskseq || !bpf_core_field_exists(disk->diskseq) || disk->diskseq == diskseq;
}

/* The index of a device; DEV_NONE if it is not selected. */
static __always_inline __u32 dev_index(struct gendisk *disk, const volatile struct dev_hash *hash)
{
	__u32 number = disk->major << 20 | disk->first_minor;
	__u32 bucket = (number * hash->multiplier) >> (hash->shift & 31), i;
	struct dev_bucket *found = bpf_map_lookup_elem(&dev_buckets, &bucket);

	if (!found)
		return DEV_NONE;
#pragma unroll
	for (i = 0; i < DEV_WAYS; i++)
		if (found->entries[i].number == number && found->entries[i].index != DEV_NONE)
			return dev_is_same(disk, found->entries[i].diskseq) ?
				       found->entries[i].index :
				       DEV_NONE;
	return DEV_NONE;
}

_Static_assert(sizeof(struct dev_bucket) == 64, "mirrored in Rust");
_Static_assert(sizeof(struct dev_hash) == 8, "mirrored in Rust");

#endif
