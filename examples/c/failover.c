/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Copies a file that three drives hold to standard output, page by page: each page from
 * the first of them that is expected to answer within the deadline.
 *
 *     cc -O2 -o failover failover.c -ltrimtab
 *     failover /mnt/a/data /mnt/b/data /mnt/c/data [MODEL [PINS [WITHIN_US]]] > copy
 *
 * WITHIN_US is what the program would notice, 500 if it is not said. 0 refuses whatever the
 * model calls late, which of a healthy drive may be half of the reads.
 */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <trimtab.h>

#define REPLICAS 3
#define WITHIN_US 500

/*
 * In time from the first or the second, or else from the last, however long it takes. If
 * that one fails, those that were only busy have the data too.
 */
static ssize_t read_page(trimtab_reader **replica, char *page, size_t length, off_t offset,
			 int64_t within_ns)
{
	int is_busy[REPLICAS] = { 0 };
	ssize_t n;

	for (int i = 0; i < REPLICAS; i++) {
		int last = i == REPLICAS - 1;

		n = trimtab_read_at(replica[i], page, length, offset,
				    last ? TRIMTAB_NO_DEADLINE : within_ns);
		if (n >= 0)
			return n;
		is_busy[i] = errno == EBUSY || errno == ETIMEDOUT;
		if (!is_busy[i])
			warnx("replica %d: %s", i, trimtab_last_error());
	}
	for (int i = 0; i < REPLICAS; i++) {
		if (!is_busy[i])
			continue;
		n = trimtab_read_at(replica[i], page, length, offset, TRIMTAB_NO_DEADLINE);
		if (n >= 0)
			return n;
		warnx("replica %d: %s", i, trimtab_last_error());
	}
	return -1;
}

int main(int argc, char **argv)
{
	trimtab_reader *replica[REPLICAS];
	char page[4096];
	int64_t within_us = WITHIN_US;
	off_t offset = 0;
	ssize_t n;

	if (argc < 1 + REPLICAS)
		errx(2, "usage: failover FILE FILE FILE [MODEL [PINS [WITHIN_US]]]");
	if (argc > 6) {
		char *end;

		within_us = strtoll(argv[6], &end, 10);
		if (end == argv[6] || *end || within_us < 0 || within_us > INT32_MAX)
			errx(2, "WITHIN_US is %s: expected microseconds", argv[6]);
	}
	for (int i = 0; i < REPLICAS; i++) {
		const char *model = argc > 4 ? argv[4] : NULL;
		const char *pins = argc > 5 ? argv[5] : NULL;

		replica[i] = trimtab_open_pinned(argv[1 + i], model, 0, pins);
		if (!replica[i])
			errx(1, "%s", trimtab_last_error());
	}
	while ((n = read_page(replica, page, sizeof page, offset,
				      within_us * 1000)) > 0) {
		if (fwrite(page, 1, (size_t)n, stdout) != (size_t)n)
			err(1, "cannot write");
		offset += n;
	}
	for (int i = 0; i < REPLICAS; i++) {
		struct trimtab_figures done;

		if (trimtab_get_figures(replica[i], &done, sizeof done) == 0)
			fprintf(stderr, "replica %d: %llu refused, %llu read\n", i,
				(unsigned long long)done.refused,
				(unsigned long long)(done.without_deadline + done.with_deadline - done.refused));
		trimtab_close(replica[i]);
	}
	/* What is still in a buffer may not fit either. */
	if (fclose(stdout))
		err(1, "cannot write");
	return n < 0;
}
