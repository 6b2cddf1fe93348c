/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a drive's state becomes when a request is sent, grows or is answered: the
 * arithmetic of trimtab_predict::Watch, function by function and under the same
 * names (src/watch.rs, src/state/unit.rs, src/state/window.rs, src/units.rs).
 * A test compares all bits. Whoever calls holds the drive's lock.
 */
#ifndef TRIMTAB_STATE_WATCH_H
#define TRIMTAB_STATE_WATCH_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "request.h"
#include "state.h"
#include "state_table.h"

/* watch.rs and state.rs have the reasons for these. */
#define STALL_NS 300000
#define STALLED_READS 3
#define REST_NS 5000000
#define WINDOW_SHORT 20
#define WINDOW_LONG 25
#define PAGE_SHIFT 12
#define PAGE_MASK ((1 << PAGE_SHIFT) - 1)

static __always_inline __u64 since(__u64 now, __u64 earlier)
{
	return now > earlier ? now - earlier : 0;
}

static __always_inline __u32 at_most_u32(__u64 n)
{
	return n > 0xffffffff ? 0xffffffff : n;
}

static __always_inline __u32 add_u32(__u32 a, __u32 b)
{
	return at_most_u32((__u64)a + b);
}

static __always_inline __u32 sub_u32(__u32 a, __u32 b)
{
	return a > b ? a - b : 0;
}

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

/* follow, in unit.rs */
static __always_inline __u32 follow(__u32 mean, __u32 value, __u32 shift)
{
	if (!mean)
		return value;
	return (__s64)mean + (((__s64)value - (__s64)mean) >> shift);
}

/* A remainder: of 32 bits it takes half the time. */
static __always_inline __u32 deal(__u64 number, __u32 units)
{
	return number >> 32 ? number % units : (__u32)number % units;
}

/* UnitFunction::unit, of the i-th function */
static __always_inline __u16 unit_of(const struct st_config *config, __u32 i, __u64 offset)
{
	const struct st_function *function = &config->function[i];
	__u16 number = 0;
	__u32 digit, n;

	switch (function->kind) {
	case ST_PAGE:
		return ((offset >> (function->shift & 63)) * 0x9e3779b97f4a7c15ULL) >>
		       (64 - ST_UNIT_BITS);
	case ST_STRIPE:
		return deal(offset >> (function->shift & 63), function->units ? function->units : 1);
	case ST_PARITY:
		digit = function->digit;
		for (n = 0; n < 16; n++) {
			if (n >= function->digits)
				break;
			number ^= config->parities[i][digit & 15][offset >> (digit * 4 & 63) & 15];
			digit++;
		}
	}
	return number;
}

/* The unit that a slot's request lies in by its i-th function. */
static __always_inline struct st_unit *unit_at(struct st_device *device, const struct st_slot *slot,
					       __u32 i)
{
	return &device->units[i * ST_UNITS + (slot->units[i] & (ST_UNITS - 1))];
}

/* Watch::each_unit */
#define each_unit(device, slot, do_it, ...)                                           \
	do {                                                                          \
		do_it(&(device)->drive.whole, __VA_ARGS__);                           \
		if ((device)->config.functions > 0)                                   \
			do_it(unit_at(device, slot, 0), __VA_ARGS__);                 \
		if ((device)->config.functions > 1)                                   \
			do_it(unit_at(device, slot, 1), __VA_ARGS__);                 \
		if ((device)->config.functions > 2)                                   \
			do_it(unit_at(device, slot, 2), __VA_ARGS__);                 \
	} while (0)

static __always_inline void unit_read_sent(struct st_unit *unit, __u64 now, __u32 pages)
{
	unit->reads++;
	unit->read_pages = add_u32(unit->read_pages, pages);
	unit->sent += now;
}

static __always_inline void unit_read_grown(struct st_unit *unit, __u32 pages)
{
	unit->read_pages = add_u32(unit->read_pages, pages);
}

static __always_inline void unit_write_sent(struct st_unit *unit, __u32 pages, __u64 written)
{
	unit->writes++;
	unit->write_pages = add_u32(unit->write_pages, pages);
	unit->written = written + 1;
}

static __always_inline void unit_write_grown(struct st_unit *unit, __u32 pages)
{
	unit->write_pages = add_u32(unit->write_pages, pages);
}

static __always_inline void unit_write_done(struct st_unit *unit, __u32 pages)
{
	unit->writes--;
	unit->write_pages = sub_u32(unit->write_pages, pages);
}

static __always_inline void unit_read_done(struct st_unit *unit, __u64 now, __u64 sent, __u32 pages,
					   bool data)
{
	__u64 begun;

	unit->reads--;
	unit->read_pages = sub_u32(unit->read_pages, pages);
	unit->sent -= sent;
	if (!data)
		return;
	unit->latency = at_most_u32(since(now, sent) >> 10);
	unit->mean_latency = follow(unit->mean_latency, unit->latency, 2);
	begun = unit->last_done > sent ? unit->last_done : sent;
	unit->service_ns = follow(unit->service_ns, at_most_u32(since(now, begun)), 3);
	unit->last_done = now;
}

static __always_inline void write_counts(struct st_drive *drive, __u64 now, __u64 bytes)
{
	drive->written += bytes;
	window_add(&drive->bytes_written[0], WINDOW_SHORT, now, at_most_u32(bytes >> 10));
	window_add(&drive->bytes_written[1], WINDOW_LONG, now, at_most_u32(bytes >> 10));
}

/* The list that a request stands in, and when its first was sent. */
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

/* Watch::sent; the slot's op and units are the caller's. */
static __always_inline void watch_sent(struct st_device *device, struct st_work *work,
				       struct st_slot *slot, __u32 number, __u64 now, __u64 offset,
				       __u64 bytes)
{
	struct st_drive *drive = &device->drive;
	__u32 pages = pages_of(slot->op, offset, bytes);

	if (since(now, drive->last_sent) > REST_NS) {
		drive->rest_ended = now;
		drive->rest_written = drive->written;
	}
	drive->last_sent = now;
	slot->sent_ns = now;
	slot->bytes = bytes;
	slot->pages = pages;
	slot->queue_then = drive->requests++;
	drive->pages = add_u32(drive->pages, pages);
	slot->pages_then = drive->pages;
	append(device, work, slot, number);
	if (slot->op == OP_READ) {
		drive->read_bytes += bytes;
		each_unit(device, slot, unit_read_sent, now, pages);
	} else if (slot->op == OP_WRITE) {
		drive->write_bytes += bytes;
		each_unit(device, slot, unit_write_sent, pages, drive->written);
		write_counts(drive, now, bytes);
	}
}

/* Watch::grown */
static __always_inline void watch_grown(struct st_device *device, struct st_slot *slot, __u64 now,
					__u64 offset, __u64 length)
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
		each_unit(device, slot, unit_read_grown, pages);
	} else if (slot->op == OP_WRITE) {
		drive->write_bytes += bytes;
		each_unit(device, slot, unit_write_grown, pages);
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

static __always_inline void read_completed(struct st_device *device, struct st_slot *slot, __u64 now,
					   bool data)
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
	each_unit(device, slot, unit_read_done, now, slot->sent_ns, slot->pages, data);
	if (!data)
		return;
	remember(drive, slot, now);
	latency = since(now, slot->sent_ns);
	drive->latencies[3] = drive->latencies[2];
	drive->latencies[2] = drive->latencies[1];
	drive->latencies[1] = drive->latencies[0];
	drive->latencies[0] = latency;
	ticks = latency >> 10 > 1 << 30 ? 1 << 30 : latency >> 10;
	window_add(&drive->reads_answered[0], WINDOW_SHORT, now, 1);
	window_add(&drive->read_latencies[0], WINDOW_SHORT, now, ticks);
	window_add(&drive->reads_answered[1], WINDOW_LONG, now, 1);
	window_add(&drive->read_latencies[1], WINDOW_LONG, now, ticks);
}

static __always_inline void write_completed(struct st_device *device, struct st_slot *slot, __u64 now,
					    bool data)
{
	struct st_drive *drive = &device->drive;

	drive->write_bytes -= slot->bytes;
	each_unit(device, slot, unit_write_done, slot->pages);
	if (data) {
		drive->last_write_done = now;
		drive->last_write_latency = since(now, slot->sent_ns);
		remember(drive, slot, now);
	}
}

/* Watch::completed */
static __always_inline void watch_completed(struct st_device *device, struct st_work *work,
					    struct st_slot *slot, __u64 now, bool data)
{
	unlink(device, work, slot);
	device->drive.requests--;
	device->drive.pages = sub_u32(device->drive.pages, slot->pages);
	if (slot->op == OP_READ)
		read_completed(device, slot, now, data);
	else if (slot->op == OP_WRITE)
		write_completed(device, slot, now, data);
}

#endif
