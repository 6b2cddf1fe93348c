/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sets of replicas: what is refused, what is read, and by whom. Run with a directory that has the
 * files a, b (alike), longer and linked (a, by another name).
 */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <trimtab.h>

#include "expect.h"

#define BYTES (400 * 4096 + 77)

static unsigned char byte_at(uint32_t i)
{
	return (unsigned char)((i * 2654435761u) >> 24);
}

static void is_refused(const char *first, const char *second, int expected, const char *words)
{
	struct trimtab_replica replicas[2] = { { .path = first }, { .path = second } };

	errno = 0;
	EXPECT(trimtab_set_open(replicas, 2, NULL, 0) == NULL && errno == expected);
	EXPECT(strstr(trimtab_last_error(), words) != NULL);
	EXPECT(strchr(trimtab_last_error(), '\n') == NULL);
}

static void is_right(trimtab_set *set, off_t offset, size_t length)
{
	static _Thread_local unsigned char buffer[3 * 4096];
	size_t left = offset < BYTES ? (size_t)(BYTES - offset) : 0;
	ssize_t n;

	memset(buffer, 0xee, sizeof buffer);
	n = trimtab_set_read_at(set, buffer, length, offset, TRIMTAB_SET_DEADLINE);
	EXPECT(n == (ssize_t)(length < left ? length : left));
	for (ssize_t i = 0; i < n; i++)
		EXPECT(buffer[i] == byte_at((uint32_t)(offset + i)));
	EXPECT(buffer[n] == 0xee);
}

static void *reads(void *set)
{
	for (uint32_t i = 0; i < 500; i++)
		is_right(set, (off_t)(i * 7919u % (BYTES + 100)), i * 31 % (2 * 4096));
	return NULL;
}

int main(int argc, char **argv)
{
	struct trimtab_replica replicas[9] = { { .path = "a" }, { .path = "b" } };
	struct trimtab_set_options options, wrong;
	struct trimtab_set_figures figures;
	trimtab_set *set;
	pthread_t threads[4];
	char page[4096];
	uint64_t served;
	int status;
	pid_t child;

	EXPECT(argc == 2 && chdir(argv[1]) == 0);
	is_refused("a", "longer", EINVAL, "must have the same content");
	is_refused("longer", "a", EINVAL, "replica 1 (a)");
	is_refused("a", "linked", EINVAL, "are the same file");
	is_refused("a", "a", EINVAL, "are the same file");
	is_refused("a", "missing", ENOENT, "replica 1: cannot open missing");
	is_refused("missing", "a", ENOENT, "replica 0: cannot open missing");
	is_refused("neither", "missing", ENOENT, "none of the 2 replicas");
	is_refused("a", ".", EINVAL, "a directory");
	is_refused("/dev/null", "a", EINVAL, "a character device");
	is_refused("a", NULL, EINVAL, "the path of replica 1 is NULL");
	EXPECT(!trimtab_set_open(NULL, 2, NULL, 0) && errno == EINVAL);
	for (size_t count = 0; count < 10; count += count == 1 ? 8 : 1) {
		errno = 0;
		EXPECT(!trimtab_set_open(replicas, count, NULL, 0) && errno == EINVAL);
		EXPECT(strstr(trimtab_last_error(), "2 to 8 replicas") != NULL);
		if (count == 9)
			break;
	}

	trimtab_set_default_options(NULL, 0);
	trimtab_set_default_options(&options, sizeof options);
	EXPECT(options.most_extra > 0 && options.oldest_ns == 1000000000 && options.flags == 0);
	wrong = options;
	wrong.most_extra = 2;
	EXPECT(!trimtab_set_open(replicas, 2, &wrong, sizeof wrong) && errno == EINVAL);
	wrong = options;
	wrong.flags = 8;
	EXPECT(!trimtab_set_open(replicas, 2, &wrong, sizeof wrong) && errno == EINVAL);
	EXPECT(!trimtab_set_open(replicas, 2, &options, 8) && errno == EINVAL);
	wrong = options;
	wrong.strategy = 4;
	EXPECT(!trimtab_set_open(replicas, 2, &wrong, sizeof wrong) && errno == EINVAL);
	wrong.strategy = TRIMTAB_STRATEGY_HEDGE;
	EXPECT(!trimtab_set_open(replicas, 2, &wrong, sizeof wrong) && errno == EINVAL);
	for (wrong.strategy = 0; wrong.strategy < 4; wrong.strategy++) {
		wrong.strategy_ns = 1000000;
		set = trimtab_set_open(replicas, 2, &wrong, sizeof wrong);
		reads(set);
		trimtab_set_close(set);
	}
	/* Options as they were before version 8. */
	set = trimtab_set_open(replicas, 2, &options, offsetof(struct trimtab_set_options, strategy_ns));
	EXPECT(set != NULL);
	trimtab_set_close(set);
	replicas[1].reserved[2] = 1;
	EXPECT(!trimtab_set_open(replicas, 2, &options, sizeof options) && errno == EINVAL);
	replicas[1].reserved[2] = 0;
	replicas[1].model = "a";
	EXPECT(!trimtab_set_open(replicas, 2, &options, sizeof options) && errno == EINVAL);
	replicas[1].model = NULL;

	set = trimtab_set_open(replicas, 2, &options, sizeof options);
	EXPECT(set != NULL);
	EXPECT(trimtab_set_read_at(NULL, page, sizeof page, 0, -1) == -1 && errno == EINVAL);
	EXPECT(trimtab_set_read_at(set, NULL, sizeof page, 0, -1) == -1 && errno == EINVAL);
	EXPECT(trimtab_set_read_at(set, page, sizeof page, -1, -1) == -1 && errno == EINVAL);
	EXPECT(trimtab_set_read_at(set, page, sizeof page, 0, -3) == -1 && errno == EINVAL);
	EXPECT(trimtab_set_auto_deadline(set) == 1000000000);
	EXPECT(trimtab_set_auto_deadline(NULL) == -1 && errno == EINVAL);
	EXPECT(trimtab_set_read_at(set, page, sizeof page, 0, TRIMTAB_AUTO_DEADLINE) == 4096);
	EXPECT(trimtab_set_failed_over(set, 1000) == 0);
	EXPECT(trimtab_set_failed_over(set, -1) == -1 && errno == EINVAL);
	EXPECT(trimtab_set_failed_over(NULL, 1000) == -1 && errno == EINVAL);
	EXPECT(trimtab_set_read_at(set, page, sizeof page, 0, TRIMTAB_NO_DEADLINE) == 4096);
	EXPECT(trimtab_set_read_at(set, page, sizeof page, 0, 10000000000) == 4096);
	reads(set);
	for (int i = 0; i < 4; i++)
		EXPECT(pthread_create(&threads[i], NULL, reads, set) == 0);
	for (int i = 0; i < 4; i++)
		EXPECT(pthread_join(threads[i], NULL) == 0);

	/* A child has no use for the rings of its parent, and makes its own. */
	child = fork();
	EXPECT(child >= 0);
	reads(set);
	if (child == 0) {
		trimtab_set_close(set);
		_exit(failures != 0);
	}
	EXPECT(waitpid(child, &status, 0) == child && status == 0);

	EXPECT(trimtab_set_get_figures(set, NULL, 0) == -1 && errno == EINVAL);
	EXPECT(trimtab_set_get_figures(NULL, &figures, sizeof figures) == -1 && errno == EINVAL);
	EXPECT(trimtab_set_get_figures(set, &figures, sizeof figures) == 0);
	EXPECT(figures.replicas == 2 && figures.errors == 0 && figures.timed_out == 0);
	served = figures.replica[0].served + figures.replica[1].served;
	EXPECT(served == figures.reads && figures.reads > 2000 && figures.copied_bytes > 0);
	EXPECT(figures.replica[0].typical_ns > 0 && !figures.replica[0].is_down);
	EXPECT(figures.without_model <= figures.reads && figures.replica[2].sent == 0);
	EXPECT(figures.control_pairs <= figures.moved && figures.beyond_p99_ppm <= 1000000);
	EXPECT(figures.control_pairs >= 1000 || figures.beyond_p99_ppm == 0);
	/* A program that knows fewer figures gets those. */
	memset(&figures, 0xff, sizeof figures);
	EXPECT(trimtab_set_get_figures(set, &figures, 16) == 0);
	EXPECT(figures.errors == 0 && figures.timed_out == UINT64_MAX);
	trimtab_set_close(set);
	trimtab_set_close(NULL);
	return failures != 0;
}
