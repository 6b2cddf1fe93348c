/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Refusing reads inside the kernel: the contract between the programs of refuse.bpf.c and
 * user space, which crates/trimtab-refuse/src/abi.rs mirrors.
 *
 * User space names the files and publishes, per drive, the wait that a read is expected to
 * have. The programs compare it with the deadline. Times are CLOCK_MONOTONIC ns.
 */
#ifndef TRIMTAB_REFUSE_H
#define TRIMTAB_REFUSE_H

#include "kernel.h"

/* The most drives that the files of one program lie on. */
#define RF_DRIVES 16
/* The drive of a file that is on no single drive, or on one without a slot. */
#define RF_NO_DRIVE (~0U)
/* PATH_MAX */
#define RF_PATH 4096
/* The unit of a share: one in a million. */
#define RF_WHOLE 1000000

/* Why a read was admitted or refused, in the order of the counters. */
enum rf_reason {
	/* The expected wait exceeds the limit. */
	RF_REFUSED = 0,
	/* It does not. */
	RF_IN_TIME = 1,
	/* It does, and the read is one of the share that is always admitted. */
	RF_SHARE = 2,
	/* The file is on no single drive that has a slot. */
	RF_NOT_ON_DRIVE = 3,
	/* No tracker follows the drive, or the drive is gone. */
	RF_NOT_TRACKED = 4,
	/* No model is loaded that fits the drive. */
	RF_NO_MODEL = 5,
	/* The model or the state does not decide. */
	RF_UNSURE = 6,
	/* What was published is too old: the publisher has ended or stands still. */
	RF_STALE = 7,
	RF_REASONS = 8,
};

/* Constant once the programs are loaded. */
struct rf_setup {
	/* A read that is expected to wait longer is refused: the deadline, less the time that
	 * asking another replica takes. */
	__u64 limit_ns;
	/* A wait that was published longer ago is not used. */
	__u64 stale_ns;
	/* Of a million reads that are expected to be late, this many are admitted. */
	__u64 share;
	/* O_DIRECT, whose number depends on the architecture. */
	__u32 o_direct;
	__u32 reserved;
};

/* A drive, written by user space. Programs may see a new word beside an old one: each pair
 * of them was right within one period of the publisher. */
struct rf_drive {
	/* The expected wait. */
	__u64 wait_ns;
	/* When it was published; 0: never. */
	__u64 published_ns;
	/* RF_IN_TIME: the wait is to be compared. Otherwise the reason to admit every read. */
	__u64 reason;
	__u64 reserved[5];
};

/* A named file. */
struct rf_file {
	/* Index of its drive, or RF_NO_DRIVE. */
	__u32 drive;
	__u32 reserved;
};

/* Counters, one set per CPU, by enum rf_reason. */
struct rf_counts {
	__u64 counts[RF_REASONS];
};

/* Reads of a drive that were expected to be late. Written by programs only. */
struct rf_late {
	__u64 reads;
	__u64 reserved[7];
};

/* Whether the kernel calls the programs, and how often the opening of a file could not be
 * reported. */
struct rf_health {
	__u64 was_called;
	__u64 lost;
};

/* The program has opened a file for direct reads that is not named (yet). */
struct rf_opened {
	__u64 inode;
	/* The file system's number, major << 20 | minor. */
	__u32 device;
	/* Bytes of the path with its terminating zero; 0: there is no path. */
	__u32 length;
	char path[RF_PATH];
};

_Static_assert(sizeof(struct rf_setup) == 32, "mirrored in Rust");
_Static_assert(sizeof(struct rf_drive) == 64, "mirrored in Rust");
_Static_assert(sizeof(struct rf_file) == 8, "mirrored in Rust");
_Static_assert(sizeof(struct rf_counts) == 64, "mirrored in Rust");
_Static_assert(sizeof(struct rf_health) == 16, "mirrored in Rust");
_Static_assert(sizeof(struct rf_opened) == 16 + RF_PATH, "mirrored in Rust");

#endif
