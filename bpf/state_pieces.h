/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The units of a request, and the changes to each of them:
 * trimtab_predict::units::UnitFunction and DriveTracker::each_unit.
 *
 * Most requests are small, and have one piece by all functions: these need no calls and no
 * loops. Requests with several pieces go through separate functions, which the verifier
 * checks once.
 */
#ifndef TRIMTAB_STATE_PIECES_H
#define TRIMTAB_STATE_PIECES_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "request.h"
#include "state.h"
#include "state_maps.h"
#include "state_table.h"
#include "state_unit.h"

/* A remainder: with 32 bits it takes half the time. */
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

/* last_byte, in units.rs */
static __always_inline __u64 last_byte(__u64 offset, __u64 length)
{
	__u64 last = offset + (length ? length - 1 : 0);

	return last < offset ? ~0ULL : last;
}

/* DriveTracker::is_spread */
static __always_inline bool is_spread(const struct st_config *config, __u64 offset, __u64 length)
{
	/* A drive that was never configured has no functions, and any number here. */
	return config->functions &&
	       (offset ^ last_byte(offset, length)) >> (config->least_shift & 63);
}

/* The changes of a unit. */
enum st_act {
	ST_READ_SENT,
	ST_READ_GROWN,
	ST_READ_DONE,
	ST_READ_FAILED,
	ST_WRITE_SENT,
	ST_WRITE_GROWN,
	ST_WRITE_DONE,
};

/* Changes a unit because of a request. `grown`: the number of pages by which it has grown,
 * if it has. */
static __always_inline void act_on(struct st_device *device, const struct st_slot *slot,
				   struct st_unit *unit, __u32 act, __u32 grown)
{
	switch (act) {
	case ST_READ_SENT:
		unit_read_sent(unit, slot->sent_ns, slot->pages);
		break;
	case ST_READ_GROWN:
		unit_read_grown(unit, grown);
		break;
	case ST_READ_DONE:
		unit_read_done(unit, device->now_ns, slot->sent_ns, slot->pages, true);
		break;
	case ST_READ_FAILED:
		unit_read_done(unit, device->now_ns, slot->sent_ns, slot->pages, false);
		break;
	case ST_WRITE_SENT:
		unit_write_sent(unit, slot->pages, device->drive.written);
		break;
	case ST_WRITE_GROWN:
		unit_write_grown(unit, grown);
		break;
	case ST_WRITE_DONE:
		unit_write_done(unit, slot->pages);
		break;
	}
}

/* Changes the unit of this offset by the i-th function. */
__noinline int st_piece(__u32 index, __u32 number, __u32 i, __u64 offset, __u64 act_and_grown)
{
	struct st_device *device = bpf_map_lookup_elem(&st_devices, &index);
	struct st_work *work = bpf_map_lookup_elem(&st_works, &index);
	__u32 unit;

	if (!device || !work || i >= ST_FUNCTIONS)
		return 0;
	unit = i * ST_UNITS + (unit_of(&device->config, i, offset) & (ST_UNITS - 1));
	/* The compiler would use "or", of which the verifier knows only the bits. */
	barrier_var(unit);
	if (unit >= ST_FUNCTIONS * ST_UNITS)
		return 0;
	act_on(device, slot_numbered(work, number), &device->units[unit], act_and_grown >> 32,
	       act_and_grown);
	return 0;
}

/* Changes the unit of each piece of a request, by each function. */
__noinline int st_spread(__u32 index, __u32 number, __u64 act_and_grown)
{
	struct st_device *device = bpf_map_lookup_elem(&st_devices, &index);
	struct st_work *work = bpf_map_lookup_elem(&st_works, &index);
	const struct st_slot *slot;
	__u64 first, more, piece;
	__u32 i, shift;

	if (!device || !work)
		return 0;
	slot = slot_numbered(work, number);
	for (i = 0; i < ST_FUNCTIONS; i++) {
		if (i >= device->config.functions)
			break;
		shift = device->config.function[i].shift & 63;
		first = slot->offset >> shift;
		more = (last_byte(slot->offset, slot->length) >> shift) - first;
		for (piece = 0; piece < ST_PIECES; piece++) {
			if (piece > more)
				break;
			st_piece(index, number, i, (first + piece) << shift, act_and_grown);
		}
	}
	return 0;
}

/* The unit of a slot's request by the i-th function, if it is in one piece. */
#define unit_at(device, slot, i) \
	(&(device)->units[(i) * ST_UNITS + ((slot)->units[i] & (ST_UNITS - 1))])

/* DriveTracker::each_unit */
static __always_inline void each_unit(__u32 index, struct st_device *device,
				      const struct st_slot *slot, __u32 number, __u32 act,
				      __u32 grown)
{
	act_on(device, slot, &device->drive.whole, act, grown);
	if (slot->is_spread) {
		st_spread(index, number, (__u64)act << 32 | grown);
		return;
	}
	if (device->config.functions > 0)
		act_on(device, slot, unit_at(device, slot, 0), act, grown);
	if (device->config.functions > 1)
		act_on(device, slot, unit_at(device, slot, 1), act, grown);
	if (device->config.functions > 2)
		act_on(device, slot, unit_at(device, slot, 2), act, grown);
}

#endif
