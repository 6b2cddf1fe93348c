/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The change of a unit's state when a request in it is sent, grows or completes:
 * trimtab_predict::Unit, under the same names (src/state/unit.rs).
 */
#ifndef TRIMTAB_STATE_UNIT_H
#define TRIMTAB_STATE_UNIT_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "state.h"

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

/* follow, in unit.rs */
static __always_inline __u32 follow(__u32 mean, __u32 value, __u32 shift)
{
	if (!mean)
		return value;
	return (__s64)mean + (((__s64)value - (__s64)mean) >> shift);
}

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
	if (now > begun)
		unit->service_ns = follow(unit->service_ns, at_most_u32(now - begun), 3);
	unit->last_done = now;
}

#endif
