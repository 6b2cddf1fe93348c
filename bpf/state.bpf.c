/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Keeps the state of each tracked drive current, for the I/O of all processes.
 *
 *   block_io_start      a request has been made for a bio  -> it is sent
 *   block_rq_issue      ... with others merged into it     -> it has grown
 *                       a flush command, which never arrives -> it is sent
 *   block_rq_requeue    the driver has given it back       -> it stays in flight
 *   block_rq_merge      it was merged by a neighbour     -> it is gone
 *   block_rq_complete   it has been answered               -> it is completed
 *
 * A request counts as sent when it arrives, as in the recordings that predictors
 * learn from: what waits in the scheduler is in flight too. Kernels before 6.5
 * lack block_io_start; there it is sent at its issue.
 *
 * Handlers of several CPUs, and of one CPU that is interrupted in the middle of
 * one, meet at a drive. Handlers never block on the drive lock. A handler that fails to
 * take it appends its event to a 64-entry queue, which the holder drains before it applies
 * newer events. The lock word is also the readers' sequence count.
 *
 * If user space has asked for it, each change is followed by a decision
 * (state_network.h).
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "request.h"
#include "state.h"
#include "state_maps.h"
#include "state_network.h"
#include "state_queue.h"
#include "state_table.h"
#include "state_watch.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct st_setup st_setup SEC(".rodata.setup") = {};
volatile struct st_control st_control SEC(".data.control") = {};

/* For tests; user space sets the number of entries: 1 << st_setup.log_bits. */
ST_ARRAY(st_log, struct st_log_entry);

/* The configuration that user space has staged for `configure`. */
ST_ARRAY(st_staged_config, struct st_config);

/* A pointer as a number that is unique to it: see record.bpf.c. */
#define key_of(pointer) ((__u64)(pointer) - (__u64)&st_control)

#define touch(what) ((void)*(volatile typeof(what) *)&(what))

/* ---- the log, for tests ---- */

static __always_inline void log_step(__u32 index, const struct st_slot *slot, __u32 number,
				     __u8 step, __u64 now, __u64 offset, __u64 length, bool data)
{
	struct st_log_entry *entry;
	__u64 place;
	__u32 i;

	if (!st_setup.log_bits)
		return;
	place = __sync_fetch_and_add(&st_control.log_taken, 1);
	i = place & ((1ULL << st_setup.log_bits) - 1);
	entry = bpf_map_lookup_elem(&st_log, &i);
	if (!entry)
		return;
	entry->time_ns = now;
	entry->offset = offset;
	entry->length = length;
	entry->slot = number;
	entry->step = step;
	entry->op = slot->op;
	entry->data = data;
	entry->device = index;
	publish(&entry->place, place + 1);
}

/* ---- requests in flight ---- */

static __always_inline void set_state(struct st_work *work, struct st_slot *slot, __u8 state)
{
	if (slot->state == ST_REQUEUED)
		work->requeued--;
	if (state == ST_REQUEUED)
		work->requeued++;
	slot->state = state;
}

/*
 * Removes a request. A separate function, like st_apply and st_drain: the verifier checks
 * it once, there is one copy of it, and rarely executed code stays out of the hot part of
 * the instruction cache.
 */
__noinline int st_complete(__u32 index, __u32 number, __u64 now, __u32 data)
{
	struct st_device *device = bpf_map_lookup_elem(&st_devices, &index);
	struct st_work *work = bpf_map_lookup_elem(&st_works, &index);
	struct st_slot *slot;

	if (!device || !work)
		return 0;
	slot = slot_numbered(work, number);
	log_step(index, slot, number, ST_STEP_COMPLETED, now, 0, 0, data);
	watch_completed(index, device, work, slot, number, now, data);
	set_state(work, slot, ST_ANSWERED);
	release(work, number);
	return 0;
}

/* Reaps the oldest request of a list if it has been in flight for too long. */
static __always_inline bool expire(__u32 index, struct st_device *device, __u32 number,
				   __u64 sent_ns, __u64 now, __u64 clock)
{
	if (!number || since(clock, sent_ns) <= st_setup.age_limit_ns)
		return false;
	st_complete(index, number, now, false);
	device->counters.expired++;
	return true;
}

/* A flush has no offset. */
static __always_inline __u64 offset_of(const struct st_event *event)
{
	return event->op == OP_FLUSH ? 0 : event->sector << 9;
}

static __always_inline void begin(__u32 index, struct st_device *device, struct st_work *work,
				  const struct st_event *event, __u64 now)
{
	__u32 number = take(index, work, event->key);
	struct st_slot *slot;

	if (!number) {
		device->counters.table_full++;
		return;
	}
	slot = slot_numbered(work, number);
	slot->op = event->op;
	slot->state = event->kind;
	slot->failed = 0;
	slot->units[0] = event->units[0];
	slot->units[1] = event->units[1];
	slot->units[2] = event->units[2];
	slot->is_spread = event->is_spread;
	slot->offset = offset_of(event);
	slot->length = event->bytes;
	log_step(index, slot, number, ST_STEP_SENT, now, slot->offset, slot->length, false);
	watch_sent(index, device, work, slot, number, now);
	device->sent++;
}

static __always_inline void grow(__u32 index, struct st_device *device, struct st_work *work,
				 __u32 number, const struct st_event *event, __u64 now)
{
	struct st_slot *slot = slot_numbered(work, number);

	if (event->bytes <= slot->bytes)
		return;
	log_step(index, slot, number, ST_STEP_GROWN, now, event->sector << 9, event->bytes, false);
	watch_grown(index, device, slot, number, now, event->sector << 9, event->bytes);
}

/* The kernel reuses the struct request for a new request, so the one in the slot has
 * completed unseen. */
static __always_inline void reap(__u32 index, struct st_device *device, __u32 number, __u64 now)
{
	st_complete(index, number, now, false);
	device->counters.never_completed++;
}

static __always_inline void arrived(__u32 index, struct st_device *device, struct st_work *work,
				    __u32 number, const struct st_event *event, __u64 now)
{
	expire(index, device, work->lists[0].first, device->drive.oldest_read, now, now);
	expire(index, device, work->lists[1].first, device->drive.oldest_other, now, now);
	/* That may have been the one. */
	if (number && slot_numbered(work, number)->key == event->key)
		reap(index, device, number, now);
	begin(index, device, work, event, now);
}

/* Applies an event to a drive; callers hold the lock. */
__noinline int st_apply(__u32 index, struct st_event *event)
{
	struct st_device *device = bpf_map_lookup_elem(&st_devices, &index);
	struct st_work *work = bpf_map_lookup_elem(&st_works, &index);
	struct st_slot *slot;
	__u32 number;
	__u64 now;

	if (!device || !work || !event)
		return 0;
	/* Clocks are read before the lock is taken, so a time may be slightly before the
	 * last one. */
	now = event->time_ns > device->now_ns ? event->time_ns : device->now_ns;
	device->now_ns = now;
	number = find(index, work, event->key);
	slot = slot_numbered(work, number);
	/* Issued without an arrival, or twice: a reused struct request. */
	if (event->kind == ST_ARRIVED ||
	    (event->kind == ST_ISSUED && (!number || slot->state == ST_ISSUED))) {
		arrived(index, device, work, number, event, now);
		return 0;
	}
	if (!number)
		return 0;
	switch (event->kind) {
	case ST_ISSUED:
		grow(index, device, work, number, event, now);
		set_state(work, slot, ST_ISSUED);
		break;
	case ST_ANSWERED:
		st_complete(index, number, now,
			    slot->op <= OP_WRITE && !slot->failed && !event->failed);
		break;
	case ST_REQUEUED:
		set_state(work, slot, ST_REQUEUED);
		break;
	case ST_FAILED_PART:
		slot->failed = 1;
		break;
	case ST_MERGED:
		st_complete(index, number, now, false);
		device->counters.merged++;
		break;
	}
	return 0;
}

/* ---- the lock and the queue ---- */

/* Applies up to `most` events of the queue. Returns their number. Stops at an event that is
 * being written: its CPU has been interrupted there. */
__noinline int st_drain(__u32 index, __u32 most)
{
	struct st_device *device = bpf_map_lookup_elem(&st_devices, &index);
	struct st_work *work = bpf_map_lookup_elem(&st_works, &index);
	struct st_queued *entry;
	struct st_event event;
	__u64 place;
	int i;

	if (!device || !work)
		return 0;
	for (i = 0; i < ST_DRAIN_CAP && i < most; i++) {
		place = work->queue_read;
		entry = &work->queue[place & (ST_QUEUE - 1)];
		if (*(volatile __u64 *)&entry->end != place / ST_QUEUE + 1)
			break;
		after_loads(&entry->end);
		event = entry->event;
		st_apply(index, &event);
		device->counters.deferred++;
		publish(&work->queue_read, place + 1);
	}
	return i;
}

/*
 * Applies an event to the state: at once, or through the queue. Queued events are applied
 * first, so that a request's completion is never overtaken by the next use of its
 * structure.
 */
static __always_inline void deliver(__u32 index, struct st_device *device, struct st_work *work,
				   struct st_event *event)
{
	__u32 drained = 0;
	int i;

	if (try_lock(device)) {
		if (!is_queue_empty(work))
			drained = st_drain(index, ST_DRAIN_CAP);
		if (is_queue_empty(work))
			st_apply(index, event);
		else
			enqueue(device, work, event);
		unlock(device);
	} else {
		enqueue(device, work, event);
	}
	/*
	 * A handler that found the lock taken relies on its holder. But the holder may have
	 * unlocked and checked the queue before the event became visible to it, while the
	 * unlocking is not yet visible here: a processor may load one location before its
	 * store to another is visible. That takes less time than this loop. (Making the
	 * store wait, at each event, would cost more than all of this.)
	 */
	for (i = 0; i < 64; i++) {
		if (is_queue_empty(work) || drained >= ST_DRAIN_CAP)
			return;
		if (!try_lock(device))
			continue;
		drained += st_drain(index, ST_DRAIN_CAP - drained);
		unlock(device);
	}
}

/* ---- what may follow ---- */

__noinline int st_decide(__u32 index)
{
	struct st_device *device = bpf_map_lookup_elem(&st_devices, &index);

	if (device)
		decide(index, device);
	return 0;
}

/* ---- tracepoints ---- */

/* The drive's index; one that has no st_device if it is not tracked. */
static __always_inline __u32 index_of(struct request *rq)
{
	return dev_index(rq->q->disk, &st_setup.devices);
}

/*
 * The units of a request. The memory that is used under the lock is touched here: taking
 * the lock waits for all earlier loads, so that they are waited for together, and not one
 * after the other with the lock held. (For a request of several pieces that holds for the
 * first.)
 */
static __always_inline void locate(struct st_device *device, struct st_event *event)
{
	__u64 offset = offset_of(event);
	__u32 i;

#pragma unroll
	for (i = 0; i < ST_FUNCTIONS; i++) {
		if (i >= device->config.functions)
			break;
		event->units[i] = unit_of(&device->config, i, offset);
		touch(device->units[i * ST_UNITS + (event->units[i] & (ST_UNITS - 1))].reads);
	}
	event->is_spread = is_spread(&device->config, offset, event->bytes);
}

static __always_inline void handle(struct request *rq, __u8 kind, __u8 op, __u8 failed)
{
	/* The clock first: reading it waits for all loads before it. */
	__u64 now = bpf_ktime_get_ns();
	__u32 index = index_of(rq);
	struct st_device *device = bpf_map_lookup_elem(&st_devices, &index);
	struct st_work *work = bpf_map_lookup_elem(&st_works, &index);
	struct st_event event = {};

	if (!device || !work)
		return;
	event.time_ns = now;
	event.key = key_of(rq);
	event.kind = kind;
	event.op = op;
	event.failed = failed;
	touch(work->slots[home_bucket(event.key)].key);
	if (kind == ST_ARRIVED || kind == ST_ISSUED) {
		event.sector = rq->__sector;
		event.bytes = rq->__data_len;
		locate(device, &event);
	}
	deliver(index, device, work, &event);
	if (st_setup.networks)
		st_decide(index);
}

SEC("tp_btf/block_io_start")
int BPF_PROG(on_start, struct request *rq)
{
	__u8 op = op_of(rq->cmd_flags);

	/* A request without data is a pure flush request, which a flush command will
	 * complete. */
	if (op != OP_NONE && rq->__data_len)
		handle(rq, ST_ARRIVED, op, 0);
	return 0;
}

/* Most requests are unchanged since their arrival, and need not be examined again: those of
 * one bio. */
SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_issue, struct request *rq)
{
	__u8 op;

	if (!st_setup.by_issue && rq->bio && rq->bio == rq->biotail)
		return 0;
	op = op_of(rq->cmd_flags);
	if (op != OP_NONE)
		handle(rq, ST_ISSUED, op, 0);
	return 0;
}

SEC("tp_btf/block_rq_requeue")
int BPF_PROG(on_requeue, struct request *rq)
{
	handle(rq, ST_REQUEUED, OP_NONE, 0);
	return 0;
}

SEC("tp_btf/block_rq_merge")
int BPF_PROG(on_merge, struct request *rq)
{
	handle(rq, ST_MERGED, OP_NONE, 0);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_complete, struct request *rq, blk_status_t error, unsigned int bytes)
{
	/* If it is only a part, the rest follows. */
	if (bytes >= rq->__data_len)
		handle(rq, ST_ANSWERED, OP_NONE, !!error);
	else if (error)
		handle(rq, ST_FAILED_PART, OP_NONE, 1);
	return 0;
}

/* As in record.bpf.c: the kernel skips a program that is still running on the same CPU. If
 * the first one was skipped, the request is still in its slot. */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_complete_again, struct request *rq, blk_status_t error, unsigned int bytes)
{
	__u32 index;
	struct st_work *work;

	if (bytes < rq->__data_len)
		return 0;
	index = index_of(rq);
	work = bpf_map_lookup_elem(&st_works, &index);
	if (work && find(index, work, key_of(rq)))
		handle(rq, ST_ANSWERED, OP_NONE, !!error);
	return 0;
}

#include "state_calls.h"
