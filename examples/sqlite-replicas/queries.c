/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Point queries at random times, through several ways to open one database, in turns; and how
 * long they took. Each way is a URI with a name, such as
 *
 *     queries -s 15 -r 4 -n 3 'base=file:/mnt/a/db?vfs=trimtab&replica1=/mnt/b/db&strategy=base'
 *
 * The database has `CREATE TABLE kv (key INTEGER PRIMARY KEY, value)`, with values that begin
 * with their key and a space. Queries are due at random times (Poisson), the same for each way; a
 * query's latency counts from when it was due, so that one that waits for a thread is late too.
 */
#include <err.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "trimtab_vfs.h"

#define MOST_WAYS 8
#define MOST_THREADS 256
#define MOST_RUNS 32

/* ---- arguments ---- */

static double per_second = 100;
static int seconds = 15, rounds = 4, runs = 1, threads = 16;

struct way {
	const char *name, *uri;
	sqlite3 *connections[MOST_THREADS];
	/* Latencies, ns: of all runs, and where those of the present run begin. */
	int64_t *took;
	size_t count, space, begin;
	struct trimtab_set_figures before;
	/* Results by run. */
	double results[MOST_RUNS][8];
};

static struct way ways[MOST_WAYS];
static int way_count;
static int64_t rows;

/* ---- random numbers and time ---- */

/* SplitMix64. */
static uint64_t next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void sleep_until(int64_t at)
{
	struct timespec time = { at / 1000000000, at % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0)
		;
}

/* ---- a turn: queries for some seconds ---- */

/* Who is next; under the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	struct way *way;
	uint64_t random;
	int64_t due, end;
} turn;

/* When the next query is due, and its key; 0: no more. */
static int64_t take(int64_t *key)
{
	int64_t due;

	pthread_mutex_lock(&lock);
	double uniform = (double)(next(&turn.random) >> 11) / 9007199254740992.0;

	due = turn.due += (int64_t)(-log1p(-uniform) / per_second * 1e9);
	*key = (int64_t)(next(&turn.random) % (uint64_t)rows);
	pthread_mutex_unlock(&lock);
	return due < turn.end ? due : 0;
}

static void give(int64_t took)
{
	struct way *way = turn.way;

	pthread_mutex_lock(&lock);
	if (way->count == way->space) {
		way->space = way->space ? way->space * 2 : 4096;
		way->took = realloc(way->took, way->space * sizeof *way->took);
		if (!way->took)
			err(1, "no memory");
	}
	way->took[way->count++] = took;
	pthread_mutex_unlock(&lock);
}

static void query(sqlite3_stmt *statement, int64_t key)
{
	sqlite3 *db = sqlite3_db_handle(statement);

	sqlite3_bind_int64(statement, 1, key);
	if (sqlite3_step(statement) != SQLITE_ROW)
		errx(1, "%s: key %lld: %s", turn.way->name, (long long)key, sqlite3_errmsg(db));
	if (strtoll((const char *)sqlite3_column_text(statement, 0), NULL, 10) != key)
		errx(1, "%s: key %lld: a wrong value", turn.way->name, (long long)key);
	sqlite3_reset(statement);
}

static void *queries(void *connection)
{
	sqlite3_stmt *statement;
	int64_t due, key;

	if (sqlite3_prepare_v2(connection, "SELECT value FROM kv WHERE key = ?", -1, &statement,
			       NULL) != SQLITE_OK)
		errx(1, "%s: %s", turn.way->name, sqlite3_errmsg(connection));
	while ((due = take(&key)) != 0) {
		sleep_until(due);
		query(statement, key);
		give(now() - due);
	}
	sqlite3_finalize(statement);
	return NULL;
}

/* Reads the inner pages of the tree, so that a query reads one page, a leaf. */
static void *warm(void *connection)
{
	sqlite3_stmt *statement;

	if (sqlite3_prepare_v2(connection, "SELECT value FROM kv WHERE key = ?", -1, &statement,
			       NULL) != SQLITE_OK)
		errx(1, "%s: %s", turn.way->name, sqlite3_errmsg(connection));
	/* An inner page has some 400 leaves, and a leaf few rows. */
	for (int64_t key = 0; key < rows; key += 1000)
		query(statement, key);
	sqlite3_finalize(statement);
	return NULL;
}

static void on_all(struct way *way, void *(*work)(void *))
{
	pthread_t all[MOST_THREADS];

	turn.way = way;
	for (int i = 0; i < threads; i++)
		if (pthread_create(&all[i], NULL, work, way->connections[i]) != 0)
			errx(1, "cannot start a thread");
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
}

static void take_turn(struct way *way, uint64_t seed)
{
	turn.random = seed;
	turn.due = now();
	turn.end = turn.due + seconds * 1000000000LL;
	on_all(way, queries);
}

/* ---- figures ---- */

static const char *const columns[] = { "mean", "p50", "p95", "p99", "p99.9", "refused", "extra" };
static const double quantiles[] = { 0, 0.5, 0.95, 0.99, 0.999 };

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static struct trimtab_set_figures figures_of(struct way *way)
{
	struct trimtab_set_figures figures;

	memset(&figures, 0, sizeof figures);
	trimtab_vfs_figures(way->connections[0], &figures);
	return figures;
}

/* In ms; NAN if too few queries support it. */
static double quantile(int64_t *took, size_t count, double share)
{
	qsort(took, count, sizeof *took, by_size);
	return (double)count * (1 - share) >= 10 ? (double)took[(size_t)((double)count * share)] / 1e6
						: NAN;
}

/* Milliseconds, and percent of the pages. The p99.9 is that of all runs. */
static void end_run(struct way *way, int run)
{
	struct trimtab_set_figures after = figures_of(way), before = way->before;
	double *to = way->results[run], sum = 0, pages = (double)(after.reads - before.reads);
	size_t count = way->count - way->begin;

	for (size_t i = way->begin; i < way->count; i++)
		sum += (double)way->took[i];
	to[0] = sum / (double)count / 1e6;
	for (int i = 1; i < 4; i++)
		to[i] = quantile(way->took + way->begin, count, quantiles[i]);
	/* Sent elsewhere first, and sent twice. */
	to[5] = 100 * (double)(after.moved - before.moved) / pages;
	to[6] = 100 * (double)(after.extra - before.extra) / pages;
	to[7] = (double)count;
	way->begin = way->count;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Median, and the lowest and highest of several runs; the p99.9 over all of them. */
static void show(void)
{
	printf("%-10s %8s", "", "queries");
	for (int column = 0; column < 7; column++)
		printf(" %22s", columns[column]);
	printf("\n");
	for (int i = 0; i < way_count; i++) {
		double queries = 0;

		for (int run = 0; run < runs; run++)
			queries += ways[i].results[run][7];
		printf("%-10s %8.0f", ways[i].name, queries);
		for (int run = 0; run < runs; run++)
			ways[i].results[run][4] = quantile(ways[i].took, ways[i].count, quantiles[4]);
		for (int column = 0; column < 7; column++) {
			double all[MOST_RUNS];
			const char *unit = column < 5 ? "ms" : "%";
			char text[64];

			for (int run = 0; run < runs; run++)
				all[run] = ways[i].results[run][column];
			qsort(all, (size_t)runs, sizeof *all, by_value);
			if (isnan(all[0]))
				strcpy(text, "-");
			else if (runs == 1 || column == 4)
				snprintf(text, sizeof text, "%.2f %s", all[0], unit);
			else
				snprintf(text, sizeof text, "%.2f %s (%.2f-%.2f)", all[runs / 2],
					 unit, all[0], all[runs - 1]);
			printf(" %22s", text);
		}
		printf("\n");
	}
	fflush(stdout);
}

/* ---- beginning ---- */

static void open_way(struct way *way)
{
	for (int i = 0; i < threads; i++) {
		sqlite3 **to = &way->connections[i];

		if (sqlite3_open_v2(way->uri, to, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI |
				    SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
			errx(1, "%s: %s", way->name, sqlite3_errmsg(*to));
		/* Pages: the inner ones, and a few leaves. */
		sqlite3_exec(*to, "PRAGMA cache_size=400", NULL, NULL, NULL);
	}
}

static void count_rows(sqlite3 *db)
{
	sqlite3_stmt *statement;

	if (sqlite3_prepare_v2(db, "SELECT max(key) FROM kv", -1, &statement, NULL) != SQLITE_OK ||
	    sqlite3_step(statement) != SQLITE_ROW)
		errx(1, "no table kv: %s", sqlite3_errmsg(db));
	rows = sqlite3_column_int64(statement, 0) + 1;
	sqlite3_finalize(statement);
}

static int number(const char *text, int most)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || *end || value < 1 || value > most)
		errx(2, "`%s`: expected a whole number from 1 to %d", text, most);
	return (int)value;
}

static void parse(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "q:s:r:n:t:")) != -1) {
		if (option == 'q')
			per_second = number(optarg, 1000000);
		else if (option == 's')
			seconds = number(optarg, 86400);
		else if (option == 'r')
			rounds = number(optarg, 10000);
		else if (option == 'n')
			runs = number(optarg, MOST_RUNS);
		else if (option == 't')
			threads = number(optarg, MOST_THREADS);
		else
			exit(2);
	}
	for (; optind < argc; optind++) {
		char *uri = strchr(argv[optind], '=');

		if (!uri || way_count == MOST_WAYS)
			errx(2, "`%s`: expected NAME=URI, at most %d", argv[optind], MOST_WAYS);
		*uri++ = '\0';
		ways[way_count].name = argv[optind];
		ways[way_count++].uri = uri;
	}
	if (way_count == 0)
		errx(2, "usage: queries [-q PER_SECOND] [-s SECONDS] [-r ROUNDS] [-n RUNS] "
			"[-t THREADS] NAME=URI ...");
}

static void log_error(void *nothing, int code, const char *text)
{
	(void)nothing;
	if (code == SQLITE_CANTOPEN || code == SQLITE_IOERR_READ)
		warnx("%s", text);
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	sqlite3_config(SQLITE_CONFIG_LOG, log_error, NULL);
	if (trimtab_vfs_register(0) != SQLITE_OK)
		errx(1, "cannot register the VFS");
	for (int i = 0; i < way_count; i++) {
		open_way(&ways[i]);
		count_rows(ways[i].connections[0]);
		on_all(&ways[i], warm);
	}
	for (int run = 0; run < runs; run++) {
		for (int i = 0; i < way_count; i++)
			ways[i].before = figures_of(&ways[i]);
		/* In turns, so that all meet the same kind of noise. */
		for (int round = 0; round < rounds; round++)
			for (int i = 0; i < way_count; i++)
				take_turn(&ways[i], (uint64_t)(run * 1000 + round));
		for (int i = 0; i < way_count; i++)
			end_run(&ways[i], run);
	}
	show();
	return 0;
}
