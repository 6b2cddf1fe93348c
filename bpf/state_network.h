/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Decisions in the kernel by LinnOS's network, which user space only looks up.
 *
 * The network is evaluated outside the drive's lock. Its input is nine numbers, copied as
 * user space copies them; if the lock were held, every other CPU's events would go through
 * the queue for a microsecond or two. The network has a separate lock, because its sums
 * persist between decisions. Handlers never block on it: a handler that fails to take it
 * continues, and the holder checks after releasing it whether the state has changed
 * meanwhile. A verdict carries the sequence count of its state.
 */
#ifndef TRIMTAB_STATE_NETWORK_H
#define TRIMTAB_STATE_NETWORK_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "network.h"
#include "request.h"
#include "state.h"
#include "state_maps.h"

ST_ARRAY(st_networks, struct st_network);

/* ---- digits ---- */

/* Quotients by multiplication: exact for all numbers with this many digits (tested in
 * network.rs). A division takes ten times as long. */
#define TENTH(n) ((n) * 52429 >> 19)
#define HUNDREDTH(n) ((n) * 5243 >> 19)
#define THOUSANDTH(n) ((n) * 8389 >> 23)
#define MICROSECONDS(ns) ((ns) * 274877907 >> 38)

static __always_inline __u64 three_digits(__u64 number)
{
	__u64 n = number > 999 ? 999 : number;
	__u64 hundreds = HUNDREDTH(n), tens = TENTH(n);

	return hundreds | (tens - 10 * hundreds) << 8 | (n - 10 * tens) << 16;
}

static __always_inline __u64 four_digits(__u64 number)
{
	__u64 n = number > 9999 ? 9999 : number;
	__u64 thousands = THOUSANDTH(n), hundreds = HUNDREDTH(n), tens = TENTH(n);

	return thousands | (hundreds - 10 * thousands) << 8 | (tens - 10 * hundreds) << 16 |
	       (n - 10 * tens) << 24;
}

/* The digits of a completion. A separate function, like st_list_changes: each limit is a
 * branch, and the verifier would follow all paths through them. */
__noinline __u64 st_answer_digits(__u64 latency_ns, __u64 pages)
{
	__u64 ns = latency_ns > 10000000 ? 10000000 : latency_ns;

	return three_digits(pages) | four_digits(MICROSECONDS(ns)) << 24;
}

/* ---- the first layer ---- */

/*
 * Adds the digits in which a completion differs from the earlier one to the list of
 * changes. Returns the length of the list. A separate function, because kernels before 6.8
 * verify all functions, needed or not, and each path through their loops: four completions
 * with seven digits have too many.
 */
__noinline int st_list_changes(__u32 index, __u32 answer, __u64 now, __u32 changes)
{
	struct st_network *network = bpf_map_lookup_elem(&st_networks, &index);
	__u64 then;
	__u32 digit;

	if (!network || answer >= ST_ANSWERS)
		return 0;
	then = network->history[answer];
	network->history[answer] = now;
	for (digit = 0; digit < ST_ANSWER_DIGITS; digit++, now >>= 8, then >>= 8) {
		__s32 by = (__s32)(now & 255) - (__s32)(then & 255);

		if (!by)
			continue;
		network->changes[changes & 31].row =
			ST_QUEUE_DIGITS + answer * ST_ANSWER_DIGITS + digit;
		network->changes[changes & 31].by = by;
		changes++;
	}
	return changes;
}

/* Lists the digits that changed, and pads the list with a change of nothing. */
static __always_inline __u32 list_changes(__u32 index, struct st_network *network,
					  const __u64 *history)
{
	__u32 answer, changes = 0;

#pragma unroll
	for (answer = 0; answer < ST_ANSWERS; answer++) {
		if (history[answer] != network->history[answer])
			changes = st_list_changes(index, answer, history[answer], changes);
	}
	network->changes[changes & 31].by = 0;
	return changes;
}

#define row_of(network, i) ((network)->first[(network)->changes[(i) & 31].row & 31])
#define step_of(network, i) ((__u64)(__s64)(network)->changes[(i) & 31].by)

/*
 * The network shifted by some words, so that `at->sums[0]` is that word and so on: one
 * pointer with constant offsets. Otherwise compilers recompute each address in a loop,
 * which is most of its instructions.
 */
#define WORDS_AT_ONCE 8
#define shifted(network, words)                                      \
	({                                                           \
		struct st_network *at = (void *)(network) + 8 * (words); \
		barrier_var(at);                                     \
		at;                                                  \
	})

/* Adds two changes to the sums: for more, BPF has too few registers for the pointers. */
__noinline int st_add_rows(__u32 index, __u32 first)
{
	struct st_network *network = bpf_map_lookup_elem(&st_networks, &index);
	__u64 *a, *b, by_a, by_b;
	__u32 i, k;

	if (!network)
		return 0;
	a = row_of(network, first);
	b = row_of(network, first + 1);
	by_a = step_of(network, first);
	by_b = step_of(network, first + 1);
	for (i = 0; i < ST_WORDS; i += WORDS_AT_ONCE) {
		struct st_network *at = shifted(network, i);

#pragma unroll
		for (k = 0; k < WORDS_AT_ONCE; k++)
			at->sums[k] += by_a * a[k] + by_b * b[k];
		a += WORDS_AT_ONCE;
		b += WORDS_AT_ONCE;
		barrier_var(a);
		barrier_var(b);
	}
	return 0;
}

/* ---- the second layer ---- */

/*
 * The greater of each half and 0. If a half has its highest bit set, the sum is not
 * negative, and the other bits are the sum. Without a branch, because the signs of neurons
 * are unpredictable.
 */
static __always_inline __u64 relu(__u64 sums, __u64 signs)
{
	__u64 keep = sums & signs;

	keep -= keep >> 31;
	return sums & keep;
}

/* The margin of a class, for the present sums and the queue's digits. */
__noinline int st_margin(__u32 index, __u32 class)
{
	struct st_network *network = bpf_map_lookup_elem(&st_networks, &index);
	__u64 hundreds, tens, ones, signs = 0x8000000080000000ULL;
	__s64 margin;
	__u32 i, k;

	if (!network || class >= ST_CLASSES)
		return 0;
	hundreds = network->queue[class] & 255;
	tens = network->queue[class] >> 8 & 255;
	ones = network->queue[class] >> 16;
	margin = network->second_bias;
	barrier_var(signs);
	for (i = 0; i < ST_WORDS; i += WORDS_AT_ONCE) {
		struct st_network *at = shifted(network, i);

#pragma unroll
		for (k = 0; k < WORDS_AT_ONCE; k++) {
			__u64 sums = at->sums[k];

			sums += hundreds * at->first[0][k];
			sums += tens * at->first[1][k];
			sums += ones * at->first[2][k];
			sums = relu(sums, signs);
			margin += (__u32)sums * at->second[0][k];
			margin += (sums >> 32) * at->second[1][k];
			/* One after the other: there are not enough registers for two. */
			barrier_var(margin);
		}
	}
	network->margins[class] = margin;
	return 0;
}

/* Updates a class's margin to the queue's digits and, if they changed, the sums. */
static __always_inline void follow_queue(__u32 index, struct st_network *network, __u32 class,
					 __u32 queue, bool changed)
{
	if (!changed && network->queue[class] == queue)
		return;
	network->queue[class] = queue;
	st_margin(index, class);
}

/* Sums and margins for these digits; unchanged parts are not recomputed. */
static __always_inline void evaluate(__u32 index, struct st_network *network, const __u64 *history,
				     __u32 small, __u32 large)
{
	__u32 i, changes = list_changes(index, network, history);

	for (i = 0; i < ST_HISTORY_DIGITS; i += ST_AT_ONCE) {
		if (i >= changes)
			break;
		st_add_rows(index, i);
	}
	follow_queue(index, network, ST_SMALL, small, changes);
	follow_queue(index, network, ST_LARGE, large, changes);
}

/* ---- deciding ---- */

static __always_inline bool take_network(struct st_network *network)
{
	return !__sync_val_compare_and_swap(&network->busy, 0, 1);
}

/* An exchange, which all processors see before the following loads: a handler that failed
 * to take the lock has changed the state before, and that change is visible here. */
static __always_inline void leave_network(struct st_network *network)
{
	__sync_lock_test_and_set(&network->busy, 0);
}

static __always_inline void publish_verdict(struct st_device *device, __u32 class, __u64 seq,
					    __u64 verdict)
{
	publish(&device->published.verdicts[class], seq << 2 | verdict);
}

/* Decides for the state at `seq`. */
static __always_inline void decide_at(__u32 index, struct st_device *device,
				      struct st_network *network, __u64 seq)
{
	const struct st_answer *answers = device->drive.history;
	__u64 history[ST_ANSWERS], small, large;
	__u32 pages = device->drive.pages;

	history[0] = st_answer_digits(answers[0].latency, answers[0].pages_then);
	history[1] = st_answer_digits(answers[1].latency, answers[1].pages_then);
	history[2] = st_answer_digits(answers[2].latency, answers[2].pages_then);
	history[3] = st_answer_digits(answers[3].latency, answers[3].pages_then);
	after_loads(&network->busy);
	if (*(volatile __u64 *)&device->seq != seq)
		return;
	small = three_digits((__u64)pages + network->pages[ST_SMALL]);
	large = three_digits((__u64)pages + network->pages[ST_LARGE]);
	evaluate(index, network, history, small, large);
	publish_verdict(device, ST_SMALL, seq, network->margins[ST_SMALL] > 0 ? ST_LATE : ST_FAST);
	publish_verdict(device, ST_LARGE, seq, network->margins[ST_LARGE] > 0 ? ST_LATE : ST_FAST);
	network->decided = seq;
}

/*
 * Updates the decisions to the state. The handler that writes the state calls this
 * afterwards, so if the state is being written, that handler will do it.
 */
static __always_inline void decide(__u32 index, struct st_device *device)
{
	struct st_network *network = bpf_map_lookup_elem(&st_networks, &index);
	__u64 seq;
	int i;

	if (!network || !network->loaded)
		return;
	for (i = 0; i < 4; i++) {
		seq = *(volatile __u64 *)&device->seq;
		if (seq & 1 || seq == *(volatile __u64 *)&network->decided)
			return;
		if (!take_network(network))
			return;
		if (network->loaded)
			decide_at(index, device, network, seq);
		leave_network(network);
	}
}

#endif
