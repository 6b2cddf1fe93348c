/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The change of a drive's state when a request is sent, grows or completes: the arithmetic
 * of trimtab_predict::DriveTracker, function by function and under the same names
 * (src/tracker.rs, src/state/window.rs). A test compares all bits. Callers hold the drive's
 * lock.
 */
#ifndef TRIMTAB_STATE_WATCH_H
#define TRIMTAB_STATE_WATCH_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "request.h"
#include "state.h"
#include "state_pieces.h"
#include "state_table.h"
#include "state_unit.h"

/* Documented in trimtab_predict: src/tracker.rs and src/state.rs. */
#define STALL_NS 300000
#define STALLED_READS 3
#define REST_NS 5000000
#define WINDOW_SHORT 20
#define WINDOW_LONG 25
#define PAGE_SHIFT 12
#define PAGE_MASK ((1 << PAGE_SHIFT) - 1)

static __always_inline __u32 pages_of(__u8 op, __u64 offset, __u64 bytes)
{
	if (op > OP_WRITE || !bytes)
		return 0;
	return at_most_u32(((offset + bytes + PAGE_MASK) >> PAGE_SHIFT) - (offset >> PAGE_SHIFT));
}

/* Window::add */
static __always_inline void window_add(struct st_window *window, __u32 shift, __u64 now, __u32 amount)
{
	__u64 stretch = now >> shift;

	if (stretch > window->stretch) {
		window->before = stretch - window->stretch == 1 ? window->current : 0;
		window->current = 0;
		window->stretch = stretch;
	}
	window->current = add_u32(window->current, amount);
}

static __always_inline void write_counts(struct st_drive *drive, __u64 now, __u64 bytes)
{
	drive->written += bytes;
	window_add(&drive->bytes_written[0], WINDOW_SHORT, now, at_most_u32(bytes >> 10));
	window_add(&drive->bytes_written[1], WINDOW_LONG, now, at_most_u32(bytes >> 10));
}

/* A request's list, and the time at which its first request was sent. */
#define list_of(work, slot) (&(work)->lists[(slot)->op != OP_READ])
#define oldest_of(device, slot) \
	((slot)->op != OP_READ ? &(device)->drive.oldest_other : &(device)->drive.oldest_read)

/* InFlight::add */
static __always_inline void append(struct st_device *device, struct st_work *work,
				   struct st_slot *slot, __u32 number)
{
	struct st_list *list = list_of(work, slot);

	slot->before = list->last;
	slot->after = 0;
	if (list->last) {
		slot_numbered(work, list->last)->after = number;
	} else {
		list->first = number;
		*oldest_of(device, slot) = slot->sent_ns;
	}
	list->last = number;
}

/* InFlight::remove */
static __always_inline void unlink(struct st_device *device, struct st_work *work,
				   struct st_slot *slot)
{
	struct st_list *list = list_of(work, slot);
	__u32 before = slot->before, after = slot->after;

	if (before) {
		slot_numbered(work, before)->after = after;
	} else {
		list->first = after;
		*oldest_of(device, slot) = after ? slot_numbered(work, after)->sent_ns : 0;
	}
	if (after)
		slot_numbered(work, after)->before = before;
	else
		list->last = before;
}

/* DriveTracker::sent; the slot's op and place are the caller's. */
static __always_inline void watch_sent(__u32 index, struct st_device *device, struct st_work *work,
				       struct st_slot *slot, __u32 number, __u64 now)
{
	struct st_drive *drive = &device->drive;
	__u32 pages = pages_of(slot->op, slot->offset, slot->length);

	if (since(now, drive->last_sent) > REST_NS) {
		drive->rest_ended = now;
		drive->rest_written = drive->written;
	}
	drive->last_sent = now;
	slot->sent_ns = now;
	slot->bytes = slot->length;
	slot->pages = pages;
	slot->queue_then = drive->requests++;
	drive->pages = add_u32(drive->pages, pages);
	slot->pages_then = drive->pages;
	append(device, work, slot, number);
	if (slot->op == OP_READ) {
		drive->read_bytes += slot->bytes;
		each_unit(index, device, slot, number, ST_READ_SENT, 0);
	} else if (slot->op == OP_WRITE) {
		drive->write_bytes += slot->bytes;
		each_unit(index, device, slot, number, ST_WRITE_SENT, 0);
		write_counts(drive, now, slot->bytes);
	}
}

/* DriveTracker::grown */
static __always_inline void watch_grown(__u32 index, struct st_device *device, struct st_slot *slot,
					__u32 number, __u64 now, __u64 offset, __u64 length)
{
	__u64 bytes = since(length, slot->bytes);
	__u32 pages = sub_u32(pages_of(slot->op, offset, length), slot->pages);
	struct st_drive *drive = &device->drive;

	slot->bytes += bytes;
	slot->pages += pages;
	slot->pages_then = add_u32(slot->pages_then, pages);
	drive->pages = add_u32(drive->pages, pages);
	if (slot->op == OP_READ) {
		drive->read_bytes += bytes;
		each_unit(index, device, slot, number, ST_READ_GROWN, pages);
	} else if (slot->op == OP_WRITE) {
		drive->write_bytes += bytes;
		each_unit(index, device, slot, number, ST_WRITE_GROWN, pages);
		write_counts(drive, now, bytes);
	}
}

static __always_inline void remember(struct st_drive *drive, const struct st_slot *slot, __u64 now)
{
	drive->history[3] = drive->history[2];
	drive->history[2] = drive->history[1];
	drive->history[1] = drive->history[0];
	drive->history[0].latency = since(now, slot->sent_ns);
	drive->history[0].pages_then = slot->pages_then;
	drive->history[0].queue_then = slot->queue_then;
}

static __always_inline void read_completed(__u32 index, struct st_device *device,
					   struct st_slot *slot, __u32 number, __u64 now, bool data)
{
	struct st_drive *drive = &device->drive;
	__u64 begun, quiet, latency;
	__u32 ticks;

	drive->read_bytes -= slot->bytes;
	begun = drive->whole.last_done > slot->sent_ns ? drive->whole.last_done : slot->sent_ns;
	quiet = since(now, begun);
	if (quiet > STALL_NS && drive->whole.reads >= STALLED_READS) {
		drive->stall_ended = now;
		drive->stall_length = quiet;
		drive->stall_written = drive->written;
	}
	if (!data) {
		each_unit(index, device, slot, number, ST_READ_FAILED, 0);
		return;
	}
	each_unit(index, device, slot, number, ST_READ_DONE, 0);
	remember(drive, slot, now);
	latency = since(now, slot->sent_ns);
	drive->latencies[3] = drive->latencies[2];
	drive->latencies[2] = drive->latencies[1];
	drive->latencies[1] = drive->latencies[0];
	drive->latencies[0] = latency;
	ticks = latency >> 10 > 1 << 30 ? 1 << 30 : latency >> 10;
	window_add(&drive->reads_completed[0], WINDOW_SHORT, now, 1);
	window_add(&drive->read_latencies[0], WINDOW_SHORT, now, ticks);
	window_add(&drive->reads_completed[1], WINDOW_LONG, now, 1);
	window_add(&drive->read_latencies[1], WINDOW_LONG, now, ticks);
}

static __always_inline void write_completed(__u32 index, struct st_device *device,
					    struct st_slot *slot, __u32 number, __u64 now, bool data)
{
	struct st_drive *drive = &device->drive;

	drive->write_bytes -= slot->bytes;
	each_unit(index, device, slot, number, ST_WRITE_DONE, 0);
	if (data) {
		drive->last_write_done = now;
		drive->last_write_latency = since(now, slot->sent_ns);
		remember(drive, slot, now);
	}
}

/* DriveTracker::completed; `now` is the device's time. */
static __always_inline void watch_completed(__u32 index, struct st_device *device,
					    struct st_work *work, struct st_slot *slot, __u32 number,
					    __u64 now, bool data)
{
	unlink(device, work, slot);
	device->drive.requests--;
	device->drive.pages = sub_u32(device->drive.pages, slot->pages);
	if (slot->op == OP_READ)
		read_completed(index, device, slot, number, now, data);
	else if (slot->op == OP_WRITE)
		write_completed(index, device, slot, number, now, data);
}

#endif
