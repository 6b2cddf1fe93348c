/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * LinnOS's network in the kernel: the contract, mirrored in
 * crates/trimtab-tracker/src/network.rs. docs/integer-network.md has the
 * arithmetic, of which this gives every bit.
 *
 * Two neighbouring neurons share a 64-bit word: the even one, plus 2^32 times the
 * odd one, added as they are, negative or not. Sums and products with digits are
 * then those of both at once, modulo 2^64. The sums have 2^31 added for each neuron;
 * since a neuron's sum fits a signed 32-bit integer (no model is accepted of which
 * any input's would not), each then fits its half of the word, and no half has
 * anything of the other.
 */
#ifndef TRIMTAB_NETWORK_H
#define TRIMTAB_NETWORK_H

#include "state.h"

#define ST_HIDDEN 256
#define ST_WORDS (ST_HIDDEN / 2)

/* Digits of an answer: three of the pages then, four of its latency. The digits of
 * something are the bytes of a word, the highest digit in the lowest byte. */
#define ST_ANSWERS 4
#define ST_ANSWER_DIGITS 7
#define ST_HISTORY_DIGITS (ST_ANSWERS * ST_ANSWER_DIGITS)
#define ST_QUEUE_DIGITS 3

/* History digits that are applied at once; the last group is padded with zeros. */
#define ST_AT_ONCE 2

/* A digit that is not what it was: its row of weights, and by how much. */
struct st_change {
	__u32 row;
	__s32 by;
};

struct st_network {
	/* 1: a CPU works with it. Handlers never block on it: see state_network.h. */
	__u64 busy;
	/* The state's `seq` that the verdicts are of. */
	__u64 decided;
	/* 0: there is none. */
	__u32 loaded;
	/* Of how many pages a read of each class is taken to be. */
	__u32 pages[ST_CLASSES];
	__u32 reserved;
	__s64 second_bias; /* output 1 less output 0, as all of the second layer */
	__s64 margins[ST_CLASSES];
	__u64 reserved2;

	/* The history digits that `sums` are of, an answer to a word, and those of the
	 * queue that `margins` are of. */
	__u64 history[ST_ANSWERS];
	__u32 queue[ST_CLASSES];
	__u64 reserved3[3];

	struct st_change changes[32];
	/* Bias and history digits of the first layer, with 2^31 each. */
	__u64 sums[ST_WORDS];
	/* Weights of the second layer: of the even neurons, and of the odd ones. */
	__s64 second[2][ST_WORDS];
	/* And of the first, by digits: of the queue, of the answers, the latest first;
	 * the last is nothing. */
	__u64 first[ST_QUEUE_DIGITS + ST_HISTORY_DIGITS + 1][ST_WORDS];
};

/* What user space, to test it, asks the network: digits as in st_network. */
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
