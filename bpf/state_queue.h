/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The lock of a drive's state, and the queue for events that find it taken. */
#ifndef TRIMTAB_STATE_QUEUE_H
#define TRIMTAB_STATE_QUEUE_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "request.h"
#include "state.h"

static __always_inline bool try_lock(struct st_device *device)
{
	__u64 seq = *(volatile __u64 *)&device->seq;

	return !(seq & 1) && __sync_val_compare_and_swap(&device->seq, seq, seq + 1) == seq;
}

static __always_inline void unlock(struct st_device *device)
{
	publish(&device->seq, device->seq + 1);
}

static __always_inline bool is_queue_empty(const struct st_work *work)
{
	return *(volatile __u64 *)&work->queue_taken == work->queue_read;
}

/* Appends an event for the holder of the lock. */
static __always_inline bool enqueue(struct st_device *device, struct st_work *work,
				    const struct st_event *event)
{
	struct st_queued *entry;
	__u64 place;
	int i;

#pragma unroll
	for (i = 0; i < 8; i++) {
		place = *(volatile __u64 *)&work->queue_taken;
		if (place - *(volatile __u64 *)&work->queue_read >= ST_QUEUE)
			break;
		if (__sync_val_compare_and_swap(&work->queue_taken, place, place + 1) != place)
			continue;
		entry = &work->queue[place & (ST_QUEUE - 1)];
		entry->event = *event;
		publish(&entry->end, place / ST_QUEUE + 1);
		return true;
	}
	__sync_fetch_and_add(&device->counters.missed, 1);
	return false;
}

#endif
