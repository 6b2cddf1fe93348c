/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The operation of a block request, independent of the kernel's version. */
#ifndef TRIMTAB_REQUEST_H
#define TRIMTAB_REQUEST_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>

/* The numbers of trimtab_io::Op; none for commands that are not block I/O. */
#define OP_READ 0
#define OP_WRITE 1
#define OP_DISCARD 2
#define OP_FLUSH 3
#define OP_NONE 4

/* The number of REQ_OP_ZONE_APPEND: other ops have it on other kernels. */
static __always_inline __u32 zone_append(void)
{
	if (bpf_core_enum_value_exists(enum req_op, REQ_OP_ZONE_APPEND))
		return bpf_core_enum_value(enum req_op, REQ_OP_ZONE_APPEND);
	if (bpf_core_enum_value_exists(enum req_opf, REQ_OP_ZONE_APPEND___opf))
		return bpf_core_enum_value(enum req_opf, REQ_OP_ZONE_APPEND___opf);
	return ~0;
}

static __always_inline __u8 op_of(__u32 cmd_flags)
{
	switch (cmd_flags & REQ_OP_MASK) {
	case REQ_OP_READ:
		return OP_READ;
	case REQ_OP_WRITE:
	case REQ_OP_WRITE_ZEROES:
		return OP_WRITE;
	case REQ_OP_DISCARD:
	case REQ_OP_SECURE_ERASE:
		return OP_DISCARD;
	case REQ_OP_FLUSH:
		return OP_FLUSH;
	}
	return (cmd_flags & REQ_OP_MASK) == zone_append() ? OP_WRITE : OP_NONE;
}

/*
 * Publishes a number: a reader that sees it sees everything that was written before. BPF
 * has no store with release semantics on kernels before 6.15. On x86 all stores become
 * visible in order; elsewhere an exchange is a full barrier. (It would be on x86 too, but
 * wait there for every earlier store: 50 ns.)
 */
static __always_inline void publish(__u64 *where, __u64 what)
{
	barrier();
#if defined(__TARGET_ARCH_x86)
	*(volatile __u64 *)where = what;
#else
	__sync_lock_test_and_set(where, what);
#endif
}

/* Later loads happen after earlier ones; `where` is a number that may be written to.
 * Processors of this kind guarantee that anyway. */
#if defined(__TARGET_ARCH_x86)
#define after_loads(where) barrier()
#else
#define after_loads(where) __sync_fetch_and_add((where), 0)
#endif

#endif
