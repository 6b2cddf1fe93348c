/*
 * A read with a deadline ends by then. Usage: deadline DISK, where the disk stalls after the
 * output "ready", and completes requests again after "late". Each page holds its number.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

#define PAGE 4096
#define READS 4
#define WITHIN_NS 20000000
/* Longer than any delay on a busy machine, shorter than a hang. */
#define HANGS_S 20

static void tell(const char *what, const char *answer)
{
	char line[32] = "";

	puts(what);
	fflush(stdout);
	EXPECT(fgets(line, sizeof line, stdin) && strcmp(line, answer) == 0);
}

static int is_filled(const unsigned char *page, size_t length, int with)
{
	for (size_t i = 0; i < length; i++)
		if (page[i] != with)
			return 0;
	return 1;
}

/* A child that does not use the reader may end in any way. */
static void fork_with_reads_out(void)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		exit(0);
	EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv)
{
	unsigned char *late[READS], *page = NULL;
	struct trimtab_figures figures;
	trimtab_reader *reader;
	time_t begun;

	if (argc != 2)
		return 2;
	reader = trimtab_open(argv[1], NULL, TRIMTAB_DIRECT);
	EXPECT(reader && posix_memalign((void **)&page, PAGE, PAGE) == 0);
	tell("ready", "stalled\n");
	begun = time(NULL);
	for (int i = 0; i < READS; i++) {
		EXPECT(posix_memalign((void **)&late[i], PAGE, PAGE) == 0);
		EXPECT(trimtab_read_at(reader, late[i], PAGE, i * PAGE, WITHIN_NS) == -1 &&
		       errno == ETIMEDOUT);
		EXPECT(strstr(trimtab_last_error(), "not answered within 20.0 ms") != NULL);
		memset(late[i], 0xc5, PAGE);
	}
	EXPECT(time(NULL) - begun < HANGS_S);
	EXPECT(trimtab_get_figures(reader, &figures, sizeof figures) == 0);
	EXPECT(figures.with_deadline == READS && figures.timed_out == READS && figures.bounded == 0);
	fork_with_reads_out();
	tell("late", "healed\n");

	EXPECT(trimtab_read_at(reader, page, PAGE, 9 * PAGE, TRIMTAB_NO_DEADLINE) == PAGE);
	EXPECT(is_filled(page, PAGE, 9));
	usleep(100000);
	for (int i = 0; i < READS; i++)
		EXPECT(is_filled(late[i], PAGE, 0xc5));
	for (int i = 0; i < 100; i++) {
		EXPECT(trimtab_read_at(reader, page, PAGE, i * PAGE, 60000000000) == PAGE);
		EXPECT(is_filled(page, PAGE, i));
	}
	trimtab_close(reader);
	return failures != 0;
}
