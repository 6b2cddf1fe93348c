/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The recorder's contract between kernel and user space: all shared memory consists of
 * these structures. crates/trimtab-record/src/abi.rs mirrors them, and both sides assert
 * the sizes.
 *
 * A request's state is in a table of slots while it is in flight; one event per request
 * goes through a ring of events when it has ended. Both are memory-mapped arrays: one side
 * writes and the other reads, without a call.
 */
#ifndef TRIMTAB_RECORD_H
#define TRIMTAB_RECORD_H

#include "devices.h"

/* Requests in flight: a hash table of slots, each of one cache line, because a request
 * mostly ends on another CPU than it started on. A key is searched in REC_NEAR_WAYS
 * neighbouring slots at one position, and as many at another. */
#define REC_SLOT_BITS 16
#define REC_NEAR_WAYS 4
#define REC_WAYS (2 * REC_NEAR_WAYS)
#define REC_SLOTS ((1 << REC_SLOT_BITS) + REC_NEAR_WAYS)

/* The numbers of trimtab_io::Op. */
enum rec_op {
	REC_READ = 0,
	REC_WRITE = 1,
	REC_DISCARD = 2,
	REC_FLUSH = 3,
};

/* The bits of trimtab_io::Flags. */
enum rec_flag {
	REC_F_SYNC = 1 << 1,
	REC_F_META = 1 << 2,
	REC_F_READAHEAD = 1 << 3,
	REC_F_FUA = 1 << 4,
	REC_F_PREFLUSH = 1 << 5,
	REC_F_BACKGROUND = 1 << 6,
	REC_F_ZEROES = 1 << 7,
	REC_F_MERGED = 1 << 8,
	REC_F_REQUEUED = 1 << 9,
	REC_F_PARTIAL = 1 << 10,
	REC_F_ERROR = 1 << 11,
	REC_F_ARRIVAL_IS_ISSUE = 1 << 12,
};

/* The stages of a request. */
enum rec_state {
	REC_ARRIVED = 1,
	REC_ISSUED = 2,
	REC_REQUEUED = 3,
};

/* One request in flight. Times are CLOCK_MONOTONIC ns; 0 is "not seen". */
struct rec_slot {
	/* 0: the slot is free. Otherwise derived from the address of the kernel's struct
	 * request (before its issue on kernels without block_io_start: of its struct bio),
	 * which is unique while the request lives. */
	__u64 key;
	__u64 arrival_ns;
	__u64 issue_ns;
	__u64 sector; /* of 512 bytes */
	__u32 bytes;
	__u32 pid; /* 0: not known */
	__u64 comm[2]; /* 16 characters, padded with zeros */
	__u16 flags; /* enum rec_flag */
	__u16 device; /* its index */
	__u8 op; /* enum rec_op */
	__u8 state; /* enum rec_state */
	__u8 reserved[2];
};

/*
 * A completed request, in its entry of the ring. `end` is written last and shows that the
 * event is complete: the lap is the ring's, counted from 1, so that an event of the
 * previous lap is not mistaken for it.
 */
struct rec_event {
	__u64 complete_ns; /* 0: its completion was not seen */
	__u64 arrival_ns;
	__u64 issue_ns;
	__u64 sector;
	__u32 bytes;
	__u32 pid;
	__u64 comm[2];
	__u64 end; /* lap << 32 | device << 16 | op << 13 | flags */
};

/* Configuration: constant once the programs are loaded. */
struct rec_config {
	/* The recorded devices: at most 65,535. */
	struct dev_hash devices;
	/* Whether arrivals come from block_getrq, without block_io_start. */
	__u32 arrival_by_bio;
	/* The ring holds 1 << ring_bits events. */
	__u32 ring_bits;
	/* Entries reserved for handlers that have checked for space and not yet taken it. */
	__u32 ring_reserve;
	__u32 reserved;
};

/* Counters of unusual events. Written with atomic additions. */
struct rec_counters {
	/* Ended, but the ring had no space for the event. */
	__u64 ring_full;
	/* Arrived while all ways of its set were taken: not recorded. */
	__u64 table_full;
	/* Issued, but its completion was not seen before the kernel reused the struct
	 * request. */
	__u64 never_completed;
	/* Arrived, and disappeared without being issued or completed. */
	__u64 abandoned;
	/* Merged into another request before issue. */
	__u64 merged;
	/* Flush requests without data that a flush command completed: they arrive and end,
	 * but are never sent to the drive themselves. */
	__u64 empty_flushes;
	/* Driver commands and zone management, which traces do not contain. */
	__u64 passthrough;
	/* Completions that the second handler saw, because the first was skipped (an
	 * interrupt occurred while it was running). */
	__u64 rescued;
};

/* Each line of 64 bytes has one kind of writer. */
struct rec_control {
	/* User space, rarely: whether new requests are recorded, and up to where it has
	 * read the ring (a count of events, never reset). */
	__u64 active;
	__u64 ring_read;
	__u64 reserved1[6];
	/* The kernel, with each event: the number of ring entries taken. */
	__u64 ring_taken;
	__u64 reserved2[7];
	/* The kernel, rarely. */
	struct rec_counters counters;
};

_Static_assert(sizeof(struct rec_config) == 24, "mirrored in abi.rs");
_Static_assert(sizeof(struct rec_slot) == 64, "mirrored in abi.rs");
_Static_assert(sizeof(struct rec_event) == 64, "mirrored in abi.rs");
_Static_assert(sizeof(struct rec_control) == 192, "mirrored in abi.rs");

#endif
