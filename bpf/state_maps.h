/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The maps shared by the programs of state.bpf.c, and their declaration. */
#ifndef TRIMTAB_STATE_MAPS_H
#define TRIMTAB_STATE_MAPS_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "state.h"

/* An array that can be mapped, and so starts at a page. It has one element unless user
 * space sets another number, usually that of the drives. */
#define ST_ARRAY(name, of)                         \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);  \
		__uint(map_flags, BPF_F_MMAPABLE); \
		__uint(max_entries, 1);            \
		__type(key, __u32);                \
		__type(value, of);                 \
	} name SEC(".maps")

ST_ARRAY(st_devices, struct st_device);

/* Never mapped and never pinned: it holds addresses, and other users' offsets. (It starts
 * at a page, so that each slot is one cache line.) */
ST_ARRAY(st_works, struct st_work);

#endif
