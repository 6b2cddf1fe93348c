/* Invalid calls of every function: each fails with the errno that the header documents. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "expect.h"

/* Called after the library's thread-local data, including the error text, is destroyed. */
static void called_at_the_end(void *unused)
{
	(void)unused;
	EXPECT(!trimtab_open("/nowhere", NULL, 0) && errno == ENOENT);
	EXPECT(strcmp(trimtab_last_error(), "") == 0);
}

static void *call(void *key)
{
	EXPECT(!trimtab_open("/nowhere", NULL, 0) && errno == ENOENT);
	EXPECT(pthread_setspecific(*(pthread_key_t *)key, key) == 0);
	return NULL;
}

static void call_while_a_thread_ends(void)
{
	pthread_key_t key;
	pthread_t thread;

	EXPECT(pthread_key_create(&key, called_at_the_end) == 0);
	EXPECT(pthread_create(&thread, NULL, call, &key) == 0);
	EXPECT(pthread_join(thread, NULL) == 0);
}

int main(void)
{
	struct trimtab_figures figures;
	uint64_t first;
	char buffer[8];
	trimtab_reader *reader;

	EXPECT(trimtab_version() == TRIMTAB_VERSION);
	EXPECT(strcmp(trimtab_last_error(), "") == 0);
	EXPECT(trimtab_refused_wait() == -1);
	EXPECT(!trimtab_open(NULL, NULL, 0) && errno == EINVAL);
	EXPECT(!trimtab_open("/proc/version", NULL, 256) && errno == EINVAL);
	EXPECT(strstr(trimtab_last_error(), "unknown flags 0x100") != NULL);
	EXPECT(!trimtab_open("/nowhere", NULL, 0) && errno == ENOENT);
	EXPECT(!trimtab_open("/proc/version", "/nowhere", 0) && errno == EINVAL);
	EXPECT(!trimtab_open("/", NULL, 0) && errno == EISDIR);

	reader = trimtab_open("/proc/version", NULL, 0);
	EXPECT(reader != NULL);
	EXPECT(trimtab_read_at(NULL, buffer, 8, 0, 0) == -1 && errno == EINVAL);
	EXPECT(trimtab_read_at(reader, NULL, 8, 0, 0) == -1 && errno == EINVAL);
	EXPECT(trimtab_read_at(reader, buffer, 8, -1, 0) == -1 && errno == EINVAL);
	EXPECT(trimtab_read_at(reader, buffer, 8, 0, -3) == -1 && errno == EINVAL);
	EXPECT(trimtab_read_at(reader, buffer, 5, 0, TRIMTAB_FAST_OR_REFUSE) == 5);
	EXPECT(memcmp(buffer, "Linux", 5) == 0);
	EXPECT(trimtab_read_at(reader, buffer, 5, 0, 60000000000) == 5);
	EXPECT(trimtab_read_at(reader, buffer, 5, 0, TRIMTAB_NO_DEADLINE) == 5);
	EXPECT(trimtab_expected_wait(reader, 5, 0) == -1 && errno == ENODATA);
	EXPECT(trimtab_expected_wait(NULL, 5, 0) == -1 && errno == EINVAL);

	EXPECT(trimtab_failed_over(NULL, 5) == -1 && errno == EINVAL);
	EXPECT(trimtab_failed_over(reader, -1) == -1 && errno == EINVAL);
	EXPECT(trimtab_failed_over(reader, INT64_MAX) == 0);
	EXPECT(trimtab_auto_deadline(NULL) == -1 && errno == EINVAL);
	EXPECT(trimtab_auto_deadline(reader) == 1000000000);
	EXPECT(trimtab_addrcheck(NULL, 1, 0) == -1 && errno == ENOMEM);
	EXPECT(trimtab_addrcheck(buffer, sizeof buffer, -2) == -1 && errno == EINVAL);
	EXPECT(trimtab_addrcheck(buffer, SIZE_MAX, 0) == -1 && errno == ENOMEM);
	EXPECT(strstr(trimtab_last_error(), "not mapped") != NULL);
	EXPECT(trimtab_addrcheck(buffer, 0, 0) == 0);
	EXPECT(trimtab_addrcheck(buffer, sizeof buffer, 0) == 0);

	EXPECT(trimtab_get_figures(reader, &figures, sizeof figures) == 0);
	EXPECT(figures.without_deadline == 1 && figures.with_deadline == 2 && figures.failed_open == 2);
	EXPECT(figures.no_model == 2 && figures.no_device == 0 && figures.other_drive == 0);
	EXPECT(figures.admitted == 0 && figures.refused == 0 && figures.fast_forced_samples == 0);
	/* An older program has fewer fields. */
	EXPECT(trimtab_get_figures(reader, (struct trimtab_figures *)(void *)&first,
				   sizeof first) == 0 && first == 1);
	EXPECT(trimtab_get_figures(reader, NULL, 8) == -1 && errno == EINVAL);
	trimtab_close(reader);
	trimtab_close(NULL);
	call_while_a_thread_ends();
	return failures != 0;
}
