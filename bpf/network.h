/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * LinnOS's network in the kernel: the contract, mirrored in
 * crates/trimtab-tracker/src/network.rs. The arithmetic is that of docs/integer-network.md,
 * bit by bit.
 *
 * Two neighbouring neurons share a 64-bit word: the even one plus 2^32 times the odd one,
 * both signed. Sums and products with digits then hold for both at once, modulo 2^64. The
 * sums have 2^31 added for each neuron. A neuron's sum fits a signed 32-bit integer (a
 * model that could exceed it is refused), so each then fits its half of the word, without a
 * carry between the halves.
 */
#ifndef TRIMTAB_NETWORK_H
#define TRIMTAB_NETWORK_H

#include "state.h"

#define ST_HIDDEN 256
#define ST_WORDS (ST_HIDDEN / 2)

/* Digits of a completion: three of the pages in flight at its submission, four of its
 * latency. Digits are the bytes of a word, the highest digit in the lowest byte. */
#define ST_ANSWERS 4
#define ST_ANSWER_DIGITS 7
#define ST_HISTORY_DIGITS (ST_ANSWERS * ST_ANSWER_DIGITS)
#define ST_QUEUE_DIGITS 3

/* History digits that are applied at once; the last group is padded with zeros. */
#define ST_AT_ONCE 2

/* A changed digit: its row of weights, and the difference. */
struct st_change {
	__u32 row;
	__s32 by;
};

struct st_network {
	/* 1: in use by a CPU. Handlers never block on it: see state_network.h. */
	__u64 busy;
	/* The `seq` of the verdicts' state. */
	__u64 decided;
	/* 0: no network is loaded. */
	__u32 loaded;
	/* The assumed size of a read of each class, in pages. */
	__u32 pages[ST_CLASSES];
	__u32 reserved;
	__s64 second_bias; /* output 1 less output 0, as all of the second layer */
	__s64 margins[ST_CLASSES];
	__u64 reserved2;

	/* The history digits of `sums`, one completion per word, and the queue digits of
	 * `margins`. */
	__u64 history[ST_ANSWERS];
	__u32 queue[ST_CLASSES];
	__u64 reserved3[3];

	struct st_change changes[32];
	/* Bias and history digits of the first layer, with 2^31 each. */
	__u64 sums[ST_WORDS];
	/* Weights of the second layer: of the even neurons, and of the odd ones. */
	__s64 second[2][ST_WORDS];
	/* Weights of the first layer, by digits: of the queue, of the completions, the
	 * latest first; the last entry is zero. */
	__u64 first[ST_QUEUE_DIGITS + ST_HISTORY_DIGITS + 1][ST_WORDS];
};

/* For tests: a query to the network: digits as in st_network. */
struct st_query {
	__u32 index;
	__u32 queue[ST_CLASSES];
	__u32 reserved;
	__u64 history[ST_ANSWERS];
	__s64 margins[ST_CLASSES];
	__u64 sums[ST_WORDS];
};

ST_AT(st_network, history, 64);
ST_AT(st_network, changes, 128);
ST_AT(st_network, sums, 384);
ST_AT(st_network, second, 384 + 1024);
ST_AT(st_network, first, 384 + 3072);
ST_SIZE(st_network, 384 + 3072 + 32 * 1024);
ST_SIZE(st_query, 64 + 1024);

#endif
