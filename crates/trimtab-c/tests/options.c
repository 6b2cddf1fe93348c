/*
 * The options take effect. Usage: options DISK MODEL PINS, where the model predicts every
 * read late and a tracker has pinned the disk's state in PINS.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

/* The outcome of this many reads past the page cache. */
static struct trimtab_figures figures_of(const char *disk, const struct trimtab_options *options,
					 int reads)
{
	trimtab_reader *reader = trimtab_open_with(disk, options, sizeof *options);
	struct trimtab_figures figures = { 0 };
	void *page = NULL;

	EXPECT(reader && posix_memalign(&page, 4096, 4096) == 0);
	for (int i = 0; reader && i < reads; i++) {
		ssize_t n = trimtab_read_at(reader, page, 4096, i % 256 * 4096L,
					    TRIMTAB_FAST_OR_REFUSE);

		EXPECT(n == 4096 || (n == -1 && errno == EBUSY));
	}
	EXPECT(trimtab_get_figures(reader, &figures, sizeof figures) == 0);
	trimtab_close(reader);
	free(page);
	return figures;
}

/* A program that was compiled with a later version than the library's. */
static void sizes(const char *disk)
{
	struct {
		struct trimtab_options known;
		uint64_t later;
	} options;
	trimtab_reader *reader;

	memset(&options, 0xff, sizeof options);
	trimtab_default_options(&options.known, sizeof options);
	EXPECT(options.later == 0 && options.known.most_refused == 0.98);
	reader = trimtab_open_with(disk, &options.known, sizeof options);
	EXPECT(reader != NULL);
	trimtab_close(reader);
	options.later = 1;
	EXPECT(!trimtab_open_with(disk, &options.known, sizeof options) && errno == EINVAL);
	/* Smaller than in the first version. */
	EXPECT(!trimtab_open_with(disk, &options.known,
				  offsetof(struct trimtab_options, most_abandoned) - 4) &&
	       errno == EINVAL);
	EXPECT(!trimtab_open_with(disk, NULL, sizeof options.known) && errno == EINVAL);
	trimtab_default_options(NULL, sizeof options.known);
}

static void wrong(const char *disk, const struct trimtab_options *right)
{
	struct trimtab_options options = *right;

	EXPECT(!trimtab_open_with(NULL, &options, sizeof options) && errno == EINVAL);
	EXPECT(!trimtab_open_with("/nowhere", &options, sizeof options) && errno == ENOENT);
	options.most_refused = 1.5;
	EXPECT(!trimtab_open_with(disk, &options, sizeof options) && errno == EINVAL);
	EXPECT(strstr(trimtab_last_error(), "a share from 0 to 1, not 1.5") != NULL);
	options = *right;
	options.probes_out = 0;
	EXPECT(!trimtab_open_with(disk, &options, sizeof options) && errno == EINVAL);
	options = *right;
	options.flags = 2;
	EXPECT(!trimtab_open_with(disk, &options, sizeof options) && errno == EINVAL);
	EXPECT(strstr(trimtab_last_error(), "trimtab_open_with: unknown flags 0x2") != NULL);
	options = *right;
	options.reserved = 1;
	EXPECT(!trimtab_open_with(disk, &options, sizeof options) && errno == EINVAL);
	options = *right;
	options.reserved_too = 1;
	EXPECT(!trimtab_open_with(disk, &options, sizeof options) && errno == EINVAL);
	/* The fields of version 2, and zero in the rest. */
	options = *right;
	options.most_abandoned = 0;
	for (size_t size = offsetof(struct trimtab_options, most_abandoned);
	     size <= sizeof options; size += sizeof options.most_abandoned) {
		trimtab_reader *reader = trimtab_open_with(disk, &options, size);

		EXPECT(reader != NULL);
		trimtab_close(reader);
	}
	options = *right;
	options.model = "/nowhere";
	EXPECT(!trimtab_open_with(disk, &options, sizeof options) && errno == EINVAL);
}

int main(int argc, char **argv)
{
	struct trimtab_options options, right;
	struct trimtab_figures figures;

	if (argc != 4)
		return 2;
	trimtab_default_options(&right, sizeof right);
	EXPECT(!right.model && !right.pins && right.oldest_ns == 1000000000);
	EXPECT(right.probe_every_ns == 10000000 && right.probes_out == 4);
	EXPECT(right.sample_every == 1000 && right.most_refused == 0.98);
	EXPECT(right.flags == 0 && right.reserved == 0);
	EXPECT(right.most_abandoned == 64 && right.reserved_too == 0);
	figures = figures_of("/proc/version", &right, 0);
	EXPECT(figures.with_deadline == 0);
	right.model = argv[2];
	right.pins = argv[3];
	right.flags = TRIMTAB_DIRECT;

	/* Only the requested bytes. */
	options = right;
	options.most_refused = 1.0;
	options.probe_every_ns = UINT64_MAX;
	options.sample_every = 0;
	figures = figures_of(argv[1], &options, 1000);
	EXPECT(figures.with_deadline == 1000 && figures.refused + figures.unsure == 1000);
	options.sample_every = 10;
	figures = figures_of(argv[1], &options, 1000);
	EXPECT(figures.sampled >= 95 && figures.probed == 0 && figures.over_cap == 0);
	options.sample_every = 0;
	options.most_refused = 0.5;
	figures = figures_of(argv[1], &options, 1000);
	EXPECT(figures.refused > 400 && figures.refused <= 500 && figures.over_cap > 400);
	options.most_refused = 1.0;
	options.probe_every_ns = 0;
	figures = figures_of(argv[1], &options, 1000);
	EXPECT(figures.probed > 900);
	/* The tracker's heartbeat comes every 50 ms. */
	options = right;
	options.oldest_ns = 0;
	figures = figures_of(argv[1], &options, 10);
	EXPECT(figures.stale >= 9);
	options = right;
	options.pins = "/nowhere";
	figures = figures_of(argv[1], &options, 10);
	EXPECT(figures.failed_open == 10 && figures.not_tracked == 10);
	options.model = NULL;
	figures = figures_of(argv[1], &options, 10);
	EXPECT(figures.failed_open == 10 && figures.no_model == 10);

	sizes(argv[1]);
	wrong(argv[1], &right);
	return failures != 0;
}
