/*
 * Checks of mapped memory, and of reads that are expected in the page cache. Usage: mapped FILE.
 * Ends with 77 where pages of the file cannot be evicted.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

#define PAGE 4096
#define PAGES 16
#define LENGTH (PAGE * PAGES)

static unsigned char *map;
static int file;

static void make(const char *path)
{
	static unsigned char content[LENGTH];

	for (int i = 0; i < LENGTH; i++)
		content[i] = i / PAGE;
	file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	EXPECT(file >= 0 && write(file, content, LENGTH) == LENGTH && fsync(file) == 0);
	map = mmap(NULL, LENGTH, PROT_READ, MAP_SHARED, file, 0);
	EXPECT(map != MAP_FAILED && madvise(map, LENGTH, MADV_RANDOM) == 0);
}

/* Whether a page of the file is in memory. */
static int is_resident(int page)
{
	unsigned char resident = 0;

	EXPECT(mincore(map + page * PAGE, PAGE, &resident) == 0);
	return resident & 1;
}

static int evict(void)
{
	int left = 0;

	for (int tries = 0; tries < 50; tries++) {
		EXPECT(madvise(map, LENGTH, MADV_DONTNEED) == 0);
		EXPECT(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
		left = 0;
		for (int page = 0; page < PAGES; page++)
			left += is_resident(page);
		if (left == 0)
			return 1;
		usleep(2000);
	}
	return 0;
}

static void touch(int page)
{
	EXPECT(*(volatile unsigned char *)(map + page * PAGE) == page);
}

static int is_busy(int page)
{
	return trimtab_addrcheck(map + page * PAGE, PAGE, 0) == -1 && errno == EBUSY;
}

/* The background brings it in: nothing else asks for it. */
static void wait_for(int page)
{
	for (int tries = 0; tries < 20000 && !is_resident(page); tries++)
		usleep(1000);
	EXPECT(is_resident(page));
}

/* A child has no background thread of its own at first, and is refused like its parent. */
static void check_in_child(void)
{
	int status = -1;
	pid_t child;

	EXPECT(evict());
	child = fork();
	if (child == 0) {
		EXPECT(is_busy(3));
		EXPECT(trimtab_refused_wait() >= -1);
		wait_for(3);
		EXPECT(trimtab_addrcheck(map + 3 * PAGE, PAGE, 0) == 0);
		_exit(failures != 0);
	}
	EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void read_in_memory(const char *path)
{
	struct trimtab_options options;
	struct trimtab_figures figures;
	trimtab_reader *reader;
	char page[PAGE];

	trimtab_default_options(&options, sizeof options);
	EXPECT(options.failover_ns == 300000 && options.memory_below_ns == 0);
	options.memory_below_ns = 1000000;
	options.most_refused = 1.0;
	reader = trimtab_open_with(path, &options, sizeof options);
	EXPECT(reader != NULL);
	EXPECT(trimtab_read_at(reader, page, PAGE, 7 * PAGE, TRIMTAB_NO_DEADLINE) == PAGE);
	EXPECT(evict());
	EXPECT(trimtab_read_at(reader, page, PAGE, 7 * PAGE, 900000) == -1 && errno == EBUSY);
	EXPECT(strstr(trimtab_last_error(), "evicted from memory") != NULL);
	EXPECT(trimtab_get_figures(reader, &figures, sizeof figures) == 0);
	EXPECT(figures.evicted == 1 && figures.refused == 1 && figures.first_accesses == 0);
	wait_for(7);
	EXPECT(trimtab_read_at(reader, page, PAGE, 7 * PAGE, 900000) == PAGE && page[0] == 7);
	/* A deadline that follows the reads. */
	for (int i = 0; i < 200; i++)
		EXPECT(trimtab_read_at(reader, page, PAGE, 7 * PAGE, TRIMTAB_AUTO_DEADLINE) == PAGE ||
		       errno == EBUSY || errno == ETIMEDOUT);
	EXPECT(trimtab_failed_over(reader, 400000) == 0);
	EXPECT(trimtab_auto_deadline(reader) > 0 && trimtab_auto_deadline(reader) < 1000000000);
	trimtab_close(reader);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	make(argv[1]);
	if (!evict())
		return 77;
	EXPECT(trimtab_addrcheck(map, LENGTH, 0) == 0); /* never read */
	for (int page = 0; page < PAGES; page++)
		touch(page);
	EXPECT(trimtab_addrcheck(map, LENGTH, 0) == 0);
	EXPECT(evict());
	EXPECT(trimtab_addrcheck(map, LENGTH, 60000000000) == 0);
	EXPECT(trimtab_addrcheck(map, LENGTH, TRIMTAB_NO_DEADLINE) == 0);
	EXPECT(is_busy(2));
	EXPECT(strstr(trimtab_last_error(), "evicted from memory") != NULL);
	wait_for(2);
	EXPECT(trimtab_addrcheck(map + 2 * PAGE, PAGE, 0) == 0);
	check_in_child();
	read_in_memory(argv[1]);
	/* The mapping stays when the file is closed, and not when it is unmapped. */
	EXPECT(close(file) == 0);
	touch(1);
	EXPECT(trimtab_addrcheck(map + PAGE + 5, 10, 0) == 0);
	EXPECT(munmap(map + PAGE, PAGE) == 0);
	EXPECT(trimtab_addrcheck(map, LENGTH, 0) == -1 && errno == ENOMEM);
	EXPECT(trimtab_addrcheck(map, LENGTH, TRIMTAB_NO_DEADLINE) == -1 && errno == ENOMEM);
	return failures != 0;
}
