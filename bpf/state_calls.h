/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Calls from user space: programs that it runs, because only programs can write the memory
 * of st_devices. Part of state.bpf.c.
 *
 * A program that takes a lock here must not be preempted: a busy machine may take
 * milliseconds to schedule it again, while all events of the drive wait in the queue, and
 * are lost once that is full. Tracepoint handlers are not preempted. Of the programs that
 * user space can run, those of the kind `syscall` may be preempted, and raw tracepoints'
 * may not: the kernel runs these between get_cpu() and put_cpu(). So they are of that kind,
 * though no tracepoint calls them.
 */
#ifndef TRIMTAB_STATE_CALLS_H
#define TRIMTAB_STATE_CALLS_H

/*
 * For a drive without events: reaps requests in flight, because the kernel counts none at
 * the driver. Returns whether more may be left.
 *
 * But the driver may have returned a request to the queue, and the kernel no longer counts
 * that one: during error recovery, for seconds, it waits, as do all later requests. So
 * while a requeued request exists, requests are reaped by age only. (It counts as requeued
 * until it completes. A later issue is not always detected, to save the table look-up for
 * requests that never were requeued.)
 */
__noinline int st_forget(__u32 index)
{
	struct st_device *device = bpf_map_lookup_elem(&st_devices, &index);
	struct st_work *work = bpf_map_lookup_elem(&st_works, &index);
	__u64 now, clock = bpf_ktime_get_ns();
	__u32 number;
	int i;

	if (!device || !work)
		return 0;
	now = device->now_ns;
	for (i = 0; i < 32; i++) {
		if (work->requeued) {
			if (!expire(index, device, work->lists[0].first, device->drive.oldest_read,
				    now, clock) &&
			    !expire(index, device, work->lists[1].first, device->drive.oldest_other,
				    now, clock))
				return 0;
			continue;
		}
		number = work->lists[0].first;
		if (!number)
			number = work->lists[1].first;
		if (!number)
			return 0;
		reap(index, device, number, now);
	}
	return 1;
}

/* Drains the queue, since no handler will, and reaps lost requests if requested. Negative:
 * the state was being written. */
SEC("raw_tp")
int housekeep(struct st_housekeep *what)
{
	__u32 index = what->index;
	struct st_device *device = bpf_map_lookup_elem(&st_devices, &index);
	struct st_work *work = bpf_map_lookup_elem(&st_works, &index);
	int left;

	if (!device || !work)
		return 0;
	if (!what->forget && is_queue_empty(work))
		return 0;
	if (!try_lock(device))
		return -1;
	if (device->now_ns != what->now_ns) {
		unlock(device);
		return 0;
	}
	st_drain(index, ST_DRAIN_CAP);
	left = what->forget ? st_forget(index) : 0;
	unlock(device);
	return left;
}

/* The tracker runs, or stops. This also makes a decision that a handler skipped because the
 * network was busy, and withdraws those of an unloaded network. Negative: the network was
 * busy. */
SEC("raw_tp")
int heartbeat(struct st_heartbeat *what)
{
	__u32 index = what->index;
	struct st_device *device = bpf_map_lookup_elem(&st_devices, &index);
	struct st_network *network = bpf_map_lookup_elem(&st_networks, &index);

	if (!device)
		return 0;
	device->tracker.heartbeat_ns = bpf_ktime_get_ns();
	device->tracker.number = what->number;
	device->tracker.version = ST_VERSION;
	*(volatile __u32 *)&device->tracker.attached = what->attached;
	if (!st_setup.networks || !network)
		return 0;
	if (!take_network(network))
		return -1;
	if (!network->loaded) {
		device->published.verdicts[ST_SMALL] = ST_NONE;
		device->published.verdicts[ST_LARGE] = ST_NONE;
	}
	leave_network(network);
	st_decide(index);
	return 0;
}

#define CLEARED_AT_ONCE 512

/* These clear in pieces, because the verifier checks every iteration of a loop. */
__noinline int st_clear_units(__u32 index, __u32 piece)
{
	struct st_device *device = bpf_map_lookup_elem(&st_devices, &index);
	struct st_unit none = {};
	__u32 i;

	if (!device || piece >= ST_FUNCTIONS * ST_UNITS / CLEARED_AT_ONCE)
		return 0;
	for (i = 0; i < CLEARED_AT_ONCE; i++)
		device->units[piece * CLEARED_AT_ONCE + i] = none;
	return 0;
}

/* Frees the slots of all requests in flight. */
__noinline int st_clear_slots(__u32 index, __u32 list)
{
	struct st_work *work = bpf_map_lookup_elem(&st_works, &index);
	struct st_list none = {};
	struct st_slot *slot;
	__u32 number, i;

	if (!work || list > 1)
		return 0;
	number = work->lists[list].first;
	for (i = 0; i < ST_SLOTS && number; i++) {
		slot = slot_numbered(work, number);
		slot->key = 0;
		number = slot->after;
	}
	work->lists[list] = none;
	return 0;
}

/* Resets all units of a drive without unit functions: no handler uses them, so no lock is
 * needed, and it may take long. */
SEC("syscall")
int clear(struct st_configure *what)
{
	__u32 i;

	for (i = 0; i < ST_FUNCTIONS * ST_UNITS / CLEARED_AT_ONCE; i++)
		st_clear_units(what->index, i);
	return 0;
}

/* Resets a drive except its units, and applies the staged configuration. Negative: the
 * state was being written. */
SEC("raw_tp")
int configure(struct st_configure *what)
{
	__u32 index = what->index, zero = 0, i;
	struct st_device *device = bpf_map_lookup_elem(&st_devices, &index);
	struct st_work *work = bpf_map_lookup_elem(&st_works, &index);
	struct st_config *staged = bpf_map_lookup_elem(&st_staged_config, &zero);
	__u32 generation;

	if (!device || !work || !staged)
		return 0;
	if (!try_lock(device))
		return -1;
	generation = device->config.generation + 1;
	for (i = 0; i < sizeof(*staged) / 8; i++)
		((__u64 *)&device->config)[i] = ((__u64 *)staged)[i];
	device->config.generation = generation;
	for (i = 0; i < sizeof(device->drive) / 8; i++)
		((__u64 *)&device->drive)[i] = 0;
	for (i = 0; i < sizeof(device->counters) / 8; i++)
		((__u64 *)&device->counters)[i] = 0;
	device->sent = 0;
	work->displaced = 0;
	work->requeued = 0;
	st_clear_slots(index, 0);
	st_clear_slots(index, 1);
	unlock(device);
	return 0;
}

/* For tests: an event of a fictitious read of four pages. */
SEC("raw_tp")
int inject_event(struct st_injected *what)
{
	__u32 index = what->index;
	struct st_device *device = bpf_map_lookup_elem(&st_devices, &index);
	struct st_work *work = bpf_map_lookup_elem(&st_works, &index);
	struct st_event event = {};

	if (!device || !work)
		return 0;
	event.key = what->key;
	event.time_ns = bpf_ktime_get_ns();
	event.sector = what->sector;
	event.bytes = 16384;
	event.kind = what->kind;
	event.op = ST_READ;
	locate(device, &event);
	deliver(index, device, work, &event);
	return 0;
}

/* For tests: evaluates the network for some digits. Negative: it was busy. Writes the
 * result to its argument, which programs of the other kind cannot do. */
SEC("syscall")
int query_network(struct st_query *what)
{
	__u32 i, index = what->index;
	struct st_network *network = bpf_map_lookup_elem(&st_networks, &index);
	__u64 history[ST_ANSWERS];

	if (!network || !network->loaded)
		return 0;
	if (!take_network(network))
		return -1;
	history[0] = what->history[0];
	history[1] = what->history[1];
	history[2] = what->history[2];
	history[3] = what->history[3];
	evaluate(index, network, history, what->queue[ST_SMALL], what->queue[ST_LARGE]);
	what->margins[ST_SMALL] = network->margins[ST_SMALL];
	what->margins[ST_LARGE] = network->margins[ST_LARGE];
	/* Unrolled: a program's context has no variable offsets. */
#pragma unroll
	for (i = 0; i < ST_WORDS; i++)
		what->sums[i] = network->sums[i];
	leave_network(network);
	return 0;
}

#endif
