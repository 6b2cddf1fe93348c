/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Copies a file that two to eight drives hold to standard output, page by page: each page from
 * the best of them. What the drives have served is told on standard error.
 *
 *     cc -O2 -o replicas replicas.c -ltrimtab
 *     replicas [-d DEADLINE_US] [-p PINS] FILE[=MODEL] FILE[=MODEL] ... > copy
 *
 * A page that no replica has returned by its deadline ends the copy. Without -d a page may take
 * as long as it takes.
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <trimtab.h>

static void show(trimtab_set *set)
{
	struct trimtab_set_figures done;

	if (trimtab_set_get_figures(set, &done, sizeof done) != 0)
		errx(1, "%s", trimtab_last_error());
	for (uint64_t i = 0; i < done.replicas; i++)
		fprintf(stderr, "replica %" PRIu64 ": %" PRIu64 " served, %" PRIu64 " errors%s\n", i,
			done.replica[i].served, done.replica[i].errors,
			done.replica[i].is_down ? ", down" : "");
	fprintf(stderr, "%" PRIu64 " reads, %" PRIu64 " moved, %" PRIu64 " extra requests (%" PRIu64
		" hedges), %" PRIu64 " without a model\n",
		done.reads, done.moved, done.extra, done.hedges, done.without_model);
	fprintf(stderr, "gained %" PRId64 " +- %" PRIu64 " ns per moved read (%" PRIu64 " pairs)\n",
		done.gain_ns, done.gain_error_ns, done.control_pairs);
}

int main(int argc, char **argv)
{
	struct trimtab_replica replicas[TRIMTAB_MOST_REPLICAS];
	struct trimtab_set_options options;
	const char *pins = NULL;
	trimtab_set *set;
	char page[4096];
	off_t offset = 0;
	size_t count;
	ssize_t n;
	int option;

	trimtab_set_default_options(&options, sizeof options);
	while ((option = getopt(argc, argv, "d:p:")) != -1) {
		char *end = "";

		if (option == 'd')
			options.deadline_ns = strtoull(optarg, &end, 10) * 1000;
		else if (option == 'p')
			pins = optarg;
		if (option == '?' || *end || (option == 'd' && options.deadline_ns == 0))
			errx(2, "usage: replicas [-d DEADLINE_US] [-p PINS] FILE[=MODEL] FILE[=MODEL] ...");
	}
	count = (size_t)(argc - optind);
	memset(replicas, 0, sizeof replicas);
	for (size_t i = 0; i < count && i < TRIMTAB_MOST_REPLICAS; i++) {
		char *model = strchr(argv[optind + (int)i], '=');

		if (model)
			*model++ = '\0';
		replicas[i].path = argv[optind + (int)i];
		replicas[i].model = model;
		replicas[i].pins = pins;
	}
	/* More or fewer than a set can have are refused here. */
	set = trimtab_set_open(replicas, count, &options, sizeof options);
	if (!set)
		errx(1, "%s", trimtab_last_error());
	while ((n = trimtab_set_read_at(set, page, sizeof page, offset,
					TRIMTAB_SET_DEADLINE)) > 0) {
		if (fwrite(page, 1, (size_t)n, stdout) != (size_t)n)
			err(1, "cannot write");
		offset += n;
	}
	if (n < 0)
		warnx("at %jd: %s", (intmax_t)offset, trimtab_last_error());
	show(set);
	trimtab_set_close(set);
	/* What is still in a buffer may not fit either. */
	if (fclose(stdout))
		err(1, "cannot write");
	return n < 0;
}
