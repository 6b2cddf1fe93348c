/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Records the life of every block request of chosen devices.
 *
 *   block_io_start      a request has been made for a bio      -> ARRIVED
 *   block_rq_merge      ... and was merged by a neighbour    -> gone
 *   block_rq_issue      the driver gets it                     -> ISSUED
 *   block_rq_requeue    the driver sends it back               -> REQUEUED
 *   block_rq_complete   it has been answered, or a part of it  -> one event
 *
 * Kernels before 6.5 lack block_io_start. There block_getrq shows the arrival
 * of a bio, and the request takes it over when it is issued.
 *
 * Two requests do not follow that way. The block layer makes flush commands
 * itself: they have no arrival, only issue and completion. And a request that
 * is nothing but "flush!" is never issued: a flush command, often shared by
 * several, answers it. The trace holds what the drive was sent, so it holds
 * the command, and the others are counted.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "record.h"
#include "request.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Each in a separate section, and so in a separate map: user space then does not depend on
 * the compiler's layout of variables. */
const volatile struct rec_config rec_config SEC(".rodata.config") = {};
volatile struct rec_control rec_control SEC(".data.control") = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, REC_SLOTS);
	__type(key, __u32);
	__type(value, struct rec_slot);
} rec_table SEC(".maps");

/* The kernel's own ring buffer for BPF would take a lock and wake the reader: that costs as
 * much as the rest of the work at completion (docs/measurements/recording.md). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1 << 18); /* user space sets it: 1 << rec_config.ring_bits */
	__type(key, __u32);
	__type(value, struct rec_event);
} rec_ring SEC(".maps");

#define count(what) __sync_fetch_and_add(&rec_control.counters.what, 1)

/*
 * A pointer as a number that is unique to it. The verifier lets no program
 * calculate with a pointer, but the difference of two is a number.
 */
#define key_of(pointer) ((__u64)(pointer) - (__u64)&rec_control)

/*
 * The position of a key's way-th slot. The kernel allocates requests side by side, none
 * smaller than 256 bytes: 16 KiB of them share a page of 64 slots, so that a device's slots
 * are on few pages (a TLB miss costs more than the rest of this function). If the first
 * ways are taken, because two such stretches share a page, the others are scattered over
 * the whole table.
 */
static __always_inline struct rec_slot *slot_at(__u64 key, __u32 way)
{
	const __u64 phi = 0x9e3779b97f4a7c15ULL; /* Fibonacci hashing */
	__u32 index;

	if (way < REC_NEAR_WAYS)
		index = (((key >> 14) * phi) >> (64 - REC_SLOT_BITS + 6) << 6) +
			(key >> 8 & 63) + way;
	else
		index = ((key * phi) >> (64 - REC_SLOT_BITS)) + way - REC_NEAR_WAYS;
	return bpf_map_lookup_elem(&rec_table, &index);
}

/* The slot with this key, if there is one. */
static __always_inline struct rec_slot *find(__u64 key)
{
	struct rec_slot *slot;
	__u32 way;

#pragma unroll
	for (way = 0; way < REC_WAYS; way++) {
		slot = slot_at(key, way);
		if (slot && slot->key == key)
			return slot;
	}
	return 0;
}

/* Like find, but stops at a free slot: one cache line if a request has just been released. */
static __always_inline struct rec_slot *find_nearby(__u64 key)
{
	struct rec_slot *slot = slot_at(key, 0);

	return slot && slot->key ? find(key) : 0;
}

/*
 * A slot for a new request: its key's own, if the earlier request ended unseen, otherwise a
 * free one. If all ways are taken, the oldest request that was not issued is replaced: the
 * kernel drops a few requests on paths without a tracepoint.
 */
static __always_inline struct rec_slot *take(__u64 key)
{
	struct rec_slot *slot, *oldest = 0;
	__u64 oldest_ns = ~0ULL;
	__u32 way;

#pragma unroll
	for (way = 0; way < REC_WAYS; way++) {
		slot = slot_at(key, way);
		if (!slot)
			return 0;
		if (slot->key == key)
			return slot;
		if (!slot->key && __sync_val_compare_and_swap(&slot->key, 0, key) == 0) {
			slot->state = 0;
			return slot;
		}
		if (slot->state == REC_ARRIVED && slot->arrival_ns < oldest_ns) {
			oldest_ns = slot->arrival_ns;
			oldest = slot;
		}
	}
	if (oldest)
		oldest->key = key;
	else
		count(table_full);
	return oldest;
}

/* A reader that sees the slot free must see the event in the ring too: the watermark in
 * crates/trimtab-record/src/recording.rs relies on it. */
static __always_inline void release(struct rec_slot *slot)
{
	publish(&slot->key, 0);
}

/*
 * Takes an entry of the ring; entries are numbered without wrapping. Space is checked
 * first, because an entry once taken must be filled: the reader waits for it. Handlers on
 * other CPUs may take entries in between, so some are reserved for them.
 */
static __always_inline bool take_place(__u64 *place)
{
	__u64 room = (1ULL << rec_config.ring_bits) - rec_config.ring_reserve;

	if (rec_control.ring_taken - rec_control.ring_read >= room)
		return false;
	*place = __sync_fetch_and_add(&rec_control.ring_taken, 1);
	return true;
}

/* Sends a request's data to user space, which polls every few milliseconds. */
static __always_inline void send(struct rec_slot *slot, __u64 complete_ns)
{
	struct rec_event *event;
	__u64 place, lap;
	__u32 index;

	if (!take_place(&place)) {
		count(ring_full);
		return;
	}
	index = place & ((1ULL << rec_config.ring_bits) - 1);
	lap = (place >> rec_config.ring_bits) + 1;
	event = bpf_map_lookup_elem(&rec_ring, &index);
	if (!event)
		return; /* never: the index is within the map */
	event->complete_ns = complete_ns;
	event->arrival_ns = slot->arrival_ns;
	event->issue_ns = slot->issue_ns;
	event->sector = slot->sector;
	event->bytes = slot->bytes;
	event->pid = slot->pid;
	event->comm[0] = slot->comm[0];
	event->comm[1] = slot->comm[1];
	publish(&event->end, lap << 32 | (__u64)slot->device << 16 | slot->op << 13 |
				     slot->flags);
}

/*
 * The kernel reuses the struct request, so the request in the slot has ended unseen. If it
 * was issued, the drive served it: it is sent without a completion time, and counted as
 * lost.
 */
static __always_inline void reap(struct rec_slot *slot)
{
	if (slot->state < REC_ISSUED) {
		count(abandoned);
		return;
	}
	count(never_completed);
	send(slot, 0);
}

/* The device's index; DEV_NONE if it is not recorded. */
static __always_inline __u32 device_of(struct gendisk *disk)
{
	return dev_index(disk, &rec_config.devices);
}

/*
 * Whether a request may be in the table. Usually it is at its key's first position, and
 * then its device, three loads away, need not be read.
 */
static __always_inline bool may_be_ours(struct request *rq)
{
	struct rec_slot *slot = slot_at(key_of(rq), 0);

	return (slot && slot->key == key_of(rq)) || device_of(rq->q->disk) != DEV_NONE;
}

/* Maps an op; false for commands that are not block I/O. */
static __always_inline bool map_op(__u32 cmd_flags, __u8 *op, __u16 *flags)
{
	*op = op_of(cmd_flags);
	if ((cmd_flags & REQ_OP_MASK) == REQ_OP_WRITE_ZEROES)
		*flags |= REC_F_ZEROES;
	return *op != OP_NONE;
}

static __always_inline bool is_passthrough(__u32 cmd_flags)
{
	return op_of(cmd_flags) == OP_NONE;
}

#define flag_if(cmd_flags, bit, flag) \
	((cmd_flags) >> bpf_core_enum_value(enum req_flag_bits, bit) & 1 ? (flag) : 0)

static __always_inline __u16 map_flags(__u32 cmd_flags)
{
	return flag_if(cmd_flags, __REQ_SYNC, REC_F_SYNC) |
	       flag_if(cmd_flags, __REQ_META, REC_F_META) |
	       flag_if(cmd_flags, __REQ_RAHEAD, REC_F_READAHEAD) |
	       flag_if(cmd_flags, __REQ_FUA, REC_F_FUA) |
	       flag_if(cmd_flags, __REQ_PREFLUSH, REC_F_PREFLUSH) |
	       flag_if(cmd_flags, __REQ_BACKGROUND, REC_F_BACKGROUND);
}

/*
 * Starts a request. The slot is taken before the clock is read: if a reader scans the table
 * at time t and finds no slot, the request's arrival is after t.
 */
static __always_inline struct rec_slot *begin(__u64 key, __u32 device, __u32 cmd_flags)
{
	struct rec_slot *slot;
	__u16 flags = 0;
	__u8 op;

	if (!map_op(cmd_flags, &op, &flags))
		return 0;
	slot = take(key);
	if (!slot)
		return 0;
	if (slot->state)
		reap(slot);
	slot->arrival_ns = bpf_ktime_get_ns();
	slot->state = REC_ARRIVED;
	slot->issue_ns = 0;
	slot->device = device;
	slot->op = op;
	slot->flags = flags | map_flags(cmd_flags);
	return slot;
}

static __always_inline void arrive(__u64 key, struct gendisk *disk, __u32 cmd_flags,
				   __u64 sector, __u32 bytes)
{
	struct task_struct *task;
	struct rec_slot *slot;
	__u32 device;

	if (!rec_control.active)
		return;
	device = device_of(disk);
	if (device == DEV_NONE)
		return;
	slot = begin(key, device, cmd_flags);
	if (!slot)
		return;
	slot->sector = sector;
	slot->bytes = bytes;
	/* Reading the task directly is cheaper than the helpers for process
	 * number and name. */
	task = bpf_get_current_task_btf();
	slot->pid = task->tgid;
	slot->comm[0] = ((__u64 *)task->comm)[0];
	slot->comm[1] = ((__u64 *)task->comm)[1];
}

SEC("tp_btf/block_io_start")
int BPF_PROG(on_start, struct request *rq)
{
	arrive(key_of(rq), rq->q->disk, rq->cmd_flags, rq->__sector, rq->__data_len);
	return 0;
}

SEC("tp_btf/block_getrq")
int BPF_PROG(on_getrq, struct bio *bio)
{
	arrive(key_of(bio), bio->bi_bdev->bd_disk, bio->bi_opf, bio->bi_iter.bi_sector,
	       bio->bi_iter.bi_size);
	return 0;
}

/*
 * Before its issue a request may be keyed by the bio that it was made for. That bio is its
 * first, or, after a merge in front of it, its last.
 */
static __always_inline struct rec_slot *find_by_bio(struct request *rq)
{
	struct rec_slot *slot;

	if (!rec_config.arrival_by_bio)
		return 0;
	slot = find(key_of(rq->bio));
	return slot ? slot : find(key_of(rq->biotail));
}

/* After merges at both ends that bio is neither. The number of bios examined. */
#define MAX_BIOS 64

static __always_inline struct rec_slot *find_by_any_bio(struct request *rq)
{
	struct rec_slot *slot = find_by_bio(rq);
	struct bio *bio;
	int i;

	if (slot || !rec_config.arrival_by_bio)
		return slot;
	bio = rq->bio;
	for (i = 0; i < MAX_BIOS; i++) {
		if (!bio)
			return 0;
		bio = bio->bi_next;
		slot = find(key_of(bio));
		if (slot)
			return slot;
	}
	return 0;
}

/* Moves a request's data from its bio's slot to its own. */
static __always_inline struct rec_slot *adopt(struct request *rq)
{
	struct rec_slot *theirs, *ours;

	theirs = find_by_any_bio(rq);
	if (!theirs)
		return 0;
	ours = take(key_of(rq));
	if (!ours)
		return 0;
	if (ours->state)
		reap(ours);
	*ours = *theirs;
	ours->key = key_of(rq);
	release(theirs);
	return ours;
}

/* A request that is issued without a seen arrival. */
static __always_inline struct rec_slot *begin_at_issue(struct request *rq)
{
	__u32 device = device_of(rq->q->disk);
	struct rec_slot *slot;

	if (!rec_control.active || device == DEV_NONE)
		return 0;
	slot = begin(key_of(rq), device, rq->cmd_flags);
	if (!slot) {
		if (is_passthrough(rq->cmd_flags))
			count(passthrough);
		return 0;
	}
	slot->flags |= REC_F_ARRIVAL_IS_ISSUE;
	slot->bytes = rq->__data_len;
	slot->pid = 0;
	slot->comm[0] = 0;
	return slot;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_issue, struct request *rq)
{
	struct rec_slot *slot;

	if (!may_be_ours(rq))
		return 0;
	slot = find(key_of(rq));
	if (slot && slot->state == REC_REQUEUED) {
		/* The same request again: offset and time are those of the first issue,
		 * unless it has grown meanwhile. */
		if (rq->__data_len > slot->bytes) {
			slot->flags |= REC_F_MERGED;
			slot->sector = rq->__sector;
			slot->bytes = rq->__data_len;
		}
		slot->state = REC_ISSUED;
		return 0;
	}
	if (slot && slot->state == REC_ISSUED) {
		/* A reused struct request. */
		reap(slot);
		release(slot);
		slot = 0;
	}
	if (!slot)
		slot = adopt(rq);
	if (!slot)
		slot = begin_at_issue(rq);
	if (!slot)
		return 0;

	if (slot->flags & REC_F_ARRIVAL_IS_ISSUE)
		slot->issue_ns = slot->arrival_ns;
	else
		slot->issue_ns = bpf_ktime_get_ns();
	if (rq->__data_len > slot->bytes)
		slot->flags |= REC_F_MERGED;
	slot->sector = slot->op == REC_FLUSH ? 0 : rq->__sector;
	slot->bytes = rq->__data_len;
	slot->state = REC_ISSUED;
	return 0;
}

SEC("tp_btf/block_rq_requeue")
int BPF_PROG(on_requeue, struct request *rq)
{
	struct rec_slot *slot = find(key_of(rq));

	if (slot && slot->state == REC_ISSUED) {
		slot->state = REC_REQUEUED;
		slot->flags |= REC_F_REQUEUED;
	}
	return 0;
}

SEC("tp_btf/block_rq_merge")
int BPF_PROG(on_merge, struct request *rq)
{
	struct rec_slot *slot = find(key_of(rq));

	/* Requests of other devices are not here, but a bio may earlier have belonged to a
	 * recorded one. */
	if (!slot && device_of(rq->q->disk) != DEV_NONE)
		slot = find_by_any_bio(rq);
	if (slot) {
		count(merged);
		release(slot);
	}
	return 0;
}

static __always_inline void finish(struct request *rq, blk_status_t error, unsigned int bytes,
				   bool second)
{
	struct rec_slot *slot;

	if (!may_be_ours(rq))
		return;
	slot = second ? find_nearby(key_of(rq)) : find(key_of(rq));
	if (!slot && !second)
		slot = find_by_bio(rq);
	if (!slot)
		return;
	if (error)
		slot->flags |= REC_F_ERROR;
	if (bytes < rq->__data_len) {
		/* Only a part; the rest follows. */
		slot->flags |= REC_F_PARTIAL;
		return;
	}
	if (slot->state == REC_ARRIVED && !slot->bytes) {
		count(empty_flushes);
		release(slot);
		return;
	}
	if (second)
		count(rescued);
	send(slot, bpf_ktime_get_ns());
	release(slot);
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_complete, struct request *rq, blk_status_t error, unsigned int bytes)
{
	finish(rq, error, bytes, false);
	return 0;
}

/*
 * The kernel skips a program that is still running on the same CPU, as when an interrupt
 * occurs during it and completes another request. This second program runs after the first,
 * finds nothing to do, and takes over if the first was skipped. User space attaches it if
 * that can happen.
 */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_complete_again, struct request *rq, blk_status_t error, unsigned int bytes)
{
	finish(rq, error, bytes, true);
	return 0;
}
