/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The state of each drive: the contract between the programs that update it
 * (state.bpf.c) and its readers. crates/trimtab-state/src/abi.rs and
 * crates/trimtab-predict/src/state.rs mirror these structures; all sides assert
 * the sizes and offsets.
 *
 * One value of a memory-mapped array, st_devices, holds what any process may read of
 * one drive: figures of the whole and of its units. Only programs write it: the map is
 * frozen, so that a process that has it can read it without a call, and can change it
 * neither by a call nor by a mapping. (A BPF program can: where every user may load one,
 * the map is not open to every user.) The figures are computed from single requests, with
 * their places and the kernel's addresses, in maps that only the programs have
 * (st_works). User space acts on the state through programs that it runs (state_calls.h),
 * or through private maps (st_control, st_staged_config, st_networks).
 *
 * Times are CLOCK_MONOTONIC ns. A page is 4 KiB, a tick 1024 ns.
 */
#ifndef TRIMTAB_STATE_H
#define TRIMTAB_STATE_H

#include "devices.h"

/* Version of st_device: incremented with each change of meaning. */
#define ST_VERSION 3

/* The most unit functions, and units per function. */
#define ST_FUNCTIONS 3
#define ST_UNIT_BITS 12
#define ST_UNITS (1 << ST_UNIT_BITS)
#define ST_MASKS ST_UNIT_BITS

/* trimtab_predict::units::MOST_PIECES */
#define ST_PIECES 16

/* Requests in flight, per drive: a hash table in which each has a cache line, because the
 * cost is the number of cache lines touched. A key has a home bucket, and if that is taken,
 * a probe window. A request without a slot is counted and not tracked. */
#define ST_SLOT_BITS 12
#define ST_SLOTS (1 << ST_SLOT_BITS)
#define ST_PROBE_WINDOW 16

/* Entries of a drive's queue: events that wait for the holder of its lock. */
#define ST_QUEUE 64
/* The most events of others that one handler applies, to bound the cost that a request pays
 * for those of other CPUs. The rest waits for the next event, or for housekeeping. */
#define ST_DRAIN_CAP ST_QUEUE

/* The two classes of reads for which verdicts are published: up to 64 KiB, and larger. */
enum st_class {
	ST_SMALL = 0,
	ST_LARGE = 1,
	ST_CLASSES = 2,
};

enum st_verdict {
	ST_NONE = 0, /* there is no network */
	ST_FAST = 1,
	ST_LATE = 2,
};

/* The numbers of trimtab_io::Op. */
enum st_op {
	ST_READ = 0,
	ST_WRITE = 1,
	ST_DISCARD = 2,
	ST_FLUSH = 3,
};

/* trimtab_predict::units::UnitFunction */
enum st_function_kind {
	ST_PAGE = 1,
	ST_STRIPE = 2,
	ST_PARITY = 3,
};

/* A sum over a window: trimtab_predict::Window. */
struct st_window {
	__u64 stretch;
	__u32 current;
	__u32 before;
};

/* A parallel unit: trimtab_predict::Unit documents the fields. */
struct st_unit {
	__u32 reads;
	__u32 read_pages;
	__u32 writes;
	__u32 write_pages;
	__u32 latency;
	__u32 mean_latency;
	__u32 service_ns;
	__u32 reserved;
	__u64 sent;
	__u64 last_done;
	__u64 written;
	__u64 reserved2;
};

/* An answer: trimtab_predict::Answered. */
struct st_answer {
	__u64 latency;
	__u32 pages_then;
	__u32 queue_then;
};

/* The drive as a whole: trimtab_predict::DriveState documents the fields. */
struct st_drive {
	struct st_unit whole;
	__u64 written;
	__u64 last_write_done;
	__u64 last_write_latency;
	__u64 last_sent;
	__u64 stall_ended;
	__u64 stall_length;
	__u64 stall_written;
	__u64 rest_ended;
	__u64 rest_written;
	__u64 oldest_read;
	__u64 oldest_other;
	__u64 read_bytes;
	__u64 write_bytes;
	__u32 requests;
	__u32 pages;
	__u64 latencies[4];
	struct st_window bytes_written[2];
	struct st_window reads_completed[2];
	struct st_window read_latencies[2];
	struct st_answer history[4];
	__u64 reserved[2];
};

/* Counters of events that affect tracking. Written under the lock, except `missed`. */
struct st_counters {
	/* Requests without a seen completion, reaped because the kernel reused the struct
	 * request, or because of their age. */
	__u64 never_completed;
	__u64 expired;
	/* Sent, and merged into another request before it was issued to the drive. */
	__u64 merged;
	/* Arrived while the table had no slot: not tracked. */
	__u64 table_full;
	/* Events that found the lock taken and waited in the queue. */
	__u64 deferred;
	/* Events that were lost because the queue was full. */
	__u64 missed;
	__u64 reserved[2];
};

/* The mapping of offsets to units; `units` of ST_PARITY is the number of masks. */
struct st_function {
	__u8 kind; /* enum st_function_kind */
	/* The size of its stretches, as a power of two. */
	__u8 shift;
	/* ST_PARITY: the offset's digits of four bits in use: the first (0 is the lowest),
	 * and their number. */
	__u8 digit;
	__u8 digits;
	__u32 units;
};

struct st_config {
	__u32 functions;
	/* Incremented by each configuration. */
	__u32 generation;
	struct st_function function[ST_FUNCTIONS];
	__u64 masks[ST_FUNCTIONS][ST_MASKS];
	/* ST_PARITY: the parities are linear, so the unit is the exclusive or of the units
	 * of each of the offset's digits alone. */
	__u16 parities[ST_FUNCTIONS][16][16];
	/* The least `shift` of the functions: a range within one stretch of that size is in
	 * one piece by all of them. */
	__u64 least_shift;
	__u64 reserved[23];
};

/* The kinds of events that handlers apply to the state. */
enum st_kind {
	ST_ARRIVED = 1,
	ST_ISSUED = 2,
	ST_REQUEUED = 3,
	ST_MERGED = 4,
	ST_FAILED_PART = 5,
	ST_ANSWERED = 6,
};

struct st_event {
	__u64 key;
	__u64 time_ns;
	__u64 sector; /* of 512 bytes */
	__u32 bytes;
	__u8 kind; /* enum st_kind */
	__u8 op; /* enum st_op */
	__u8 failed;
	__u8 is_spread; /* whether it has several pieces by any function */
	/* The unit of the request's first piece, by each function. */
	__u16 units[ST_FUNCTIONS];
	__u16 reserved;
};

/* An event in the queue. */
struct st_queued {
	struct st_event event;
	__u64 end; /* its lap, counted from 1; written last */
	__u64 reserved[2];
};

/* A request in flight. */
struct st_slot {
	__u64 key; /* 0: the slot is free; otherwise as rec_slot.key */
	__u64 sent_ns;
	__u64 offset; /* bytes */
	__u32 bytes;
	__u32 length; /* bytes, as it was when it was sent */
	__u32 pages;
	__u32 pages_then;
	__u32 queue_then;
	/* Its neighbours in the order of sending: their slot's number plus one. */
	__u32 before;
	__u32 after;
	__u16 units[ST_FUNCTIONS];
	__u8 op;
	__u8 state; /* enum st_kind */
	__u8 failed;
	__u8 is_spread;
	__u8 reserved[2];
};

/* The ends of a list of slots: numbers plus one; 0: none. */
struct st_list {
	__u32 first;
	__u32 last;
};

/* The last decisions of the network in the kernel, by st_class. Each is one word, so that
 * reading it is one load: the count `seq` of its state, shifted by two bits, and an
 * st_verdict. */
struct st_published {
	__u64 verdicts[ST_CLASSES];
	__u64 reserved[6];
};

/* The tracker of the drive. */
struct st_tracker {
	/* Its last heartbeat. */
	__u64 heartbeat_ns;
	/* Whether the programs are attached. */
	__u32 attached;
	/* The drive's number, major << 20 | minor. */
	__u32 number;
	/* ST_VERSION */
	__u32 version;
	__u32 reserved;
	__u64 reserved2[5];
};

/* The part of a drive that every process may read. */
struct st_device {
	/*
	 * The lock word and the sequence count of a seqlock. Odd: the lock is held, and the
	 * holder writes what follows. A copy is consistent if `seq` was even and the same
	 * before and after.
	 */
	__u64 seq;
	/* The time of the last event. */
	__u64 now_ns;
	/* Requests sent since tracking began. */
	__u64 sent;
	__u64 reserved[5];

	struct st_drive drive;
	struct st_counters counters;
	struct st_config config;
	struct st_published published;
	struct st_tracker tracker;
	__u8 reserved2[1408]; /* what follows begins on a page */
	struct st_unit units[ST_FUNCTIONS * ST_UNITS];
};

/* The programs' private part of a drive. Written by the holder of the lock, except for the
 * queue's entries and `queue_taken`. */
struct st_work {
	/* The queue: entries taken by producers, and read by the holder of the lock. */
	__u64 queue_taken;
	__u64 queue_read;
	/* Reads in flight, and all other requests, in the order of sending. */
	struct st_list lists[2];
	/* Displaced requests: outside their home bucket. */
	__u64 displaced;
	/* Requests that the driver has requeued. */
	__u64 requeued;
	__u64 reserved[2];
	struct st_queued queue[ST_QUEUE];
	__u8 reserved2[4032]; /* what follows begins on a page */
	struct st_slot slots[ST_SLOTS];
};

/* Common to all drives. Private to the tracker and the programs. */
struct st_control {
	/* Entries of the log that are taken. */
	__u64 log_taken;
	__u64 reserved[7];
};

/* Constant once the programs are loaded. */
struct st_setup {
	/* Without block_io_start a request counts as sent at its issue. */
	__u32 by_issue;
	/* The log holds 1 << log_bits entries; 0: there is none. */
	__u32 log_bits;
	/* A request that has not completed within this time has completed unseen. */
	__u64 age_limit_ns;
	/* Whether networks may be loaded: otherwise the verifier removes the code for them. */
	__u32 networks;
	__u32 reserved;
	/* The tracked drives; a drive's index is that of its st_device. */
	struct dev_hash devices;
};

/* A heartbeat: the tracker of the drives runs, or stops. */
struct st_heartbeat {
	__u32 index;
	__u32 attached;
	__u32 number;
	__u32 reserved;
};

/* Resets a drive, and applies the staged configuration; or resets its units. */
struct st_configure {
	__u32 index;
	__u32 reserved;
};

/* Housekeeping of a drive without events. */
struct st_housekeep {
	__u32 index;
	__u32 forget;
	/* Does nothing if the drive's time is not this. */
	__u64 now_ns;
};

/* For tests: an event of a fictitious read. */
struct st_injected {
	__u32 index;
	__u32 kind; /* enum st_kind */
	__u64 key;
	__u64 sector;
};

/* The steps in the log, as calls of trimtab_predict::DriveTracker. */
enum st_step {
	ST_STEP_SENT = 1,
	ST_STEP_GROWN = 2,
	ST_STEP_COMPLETED = 3,
};

/* For tests: each step, in order. */
struct st_log_entry {
	__u64 time_ns;
	__u64 offset; /* bytes */
	__u64 length; /* bytes */
	__u32 slot;
	__u8 step; /* enum st_step */
	__u8 op;
	__u8 data;
	__u8 device;
	__u64 place; /* its number in the log plus one; written last */
	__u64 reserved[3];
};

#define ST_AT(type, field, offset) \
	_Static_assert(__builtin_offsetof(struct type, field) == (offset), "mirrored in Rust")
#define ST_SIZE(type, size) \
	_Static_assert(sizeof(struct type) == (size), "mirrored in Rust")

ST_SIZE(st_window, 16);
ST_SIZE(st_unit, 64);
ST_SIZE(st_answer, 16);
ST_SIZE(st_drive, 384);
ST_AT(st_drive, written, 64);
ST_AT(st_drive, oldest_read, 136);
ST_AT(st_drive, latencies, 176);
ST_AT(st_drive, bytes_written, 208);
ST_AT(st_drive, history, 304);
ST_SIZE(st_counters, 64);
ST_SIZE(st_function, 8);
ST_SIZE(st_config, 2048);
ST_AT(st_config, function, 8);
ST_AT(st_config, least_shift, 1856);
ST_AT(st_device, drive, 64);
ST_AT(st_device, counters, 448);
ST_AT(st_device, config, 512);
ST_AT(st_device, published, 2560);
ST_AT(st_device, tracker, 2624);
ST_AT(st_device, units, 4096);
ST_SIZE(st_device, 4096 + 64 * ST_FUNCTIONS * ST_UNITS);
ST_SIZE(st_event, 40);
ST_SIZE(st_queued, 64);
ST_SIZE(st_slot, 64);
ST_AT(st_work, queue, 64);
ST_AT(st_work, slots, 8192);
ST_SIZE(st_published, 64);
ST_SIZE(st_tracker, 64);
ST_SIZE(st_control, 64);
ST_SIZE(st_setup, 32);
ST_SIZE(st_heartbeat, 16);
ST_SIZE(st_configure, 8);
ST_SIZE(st_housekeep, 16);
ST_SIZE(st_injected, 24);
ST_SIZE(st_log_entry, 64);

#endif
