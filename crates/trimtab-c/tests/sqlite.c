/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The VFS of examples/sqlite-replicas: the same results as from one plain file. Run with a URI, the
 * path of a plain copy, and "same" or "fails". Opens both, says "ready", and goes on after a line.
 */
#include <stdlib.h>
#include <string.h>

#include "../../../examples/sqlite-replicas/trimtab_vfs.h"

#include "expect.h"

static const char *const queries[] = {
	"SELECT count(*), sum(length(value)), min(key), max(key) FROM kv",
	"SELECT value FROM kv WHERE key IN (1, 77, 4000, 7999, 10000) ORDER BY key",
	"SELECT key FROM kv WHERE word = 'w7' ORDER BY key LIMIT 50",
	/* Sorted in temporary files, which are the default VFS's. */
	"SELECT word, group_concat(value) FROM (SELECT * FROM kv ORDER BY substr(value, 3, 9))"
	" GROUP BY word ORDER BY word",
	"SELECT a.key FROM kv a JOIN kv b ON b.key = a.key * 2 WHERE a.word = 'w3' ORDER BY 1",
	"PRAGMA integrity_check",
};

static sqlite3 *opened(const char *name)
{
	sqlite3 *db = NULL;
	int code = sqlite3_open_v2(name, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);

	if (code != SQLITE_OK) {
		fprintf(stderr, "%s: %s\n", name, sqlite3_errmsg(db));
		exit(1);
	}
	/* Pages are read, not kept; sorting uses files. */
	sqlite3_exec(db, "PRAGMA cache_size=10; PRAGMA temp_store=1", NULL, NULL, NULL);
	return db;
}

/* All columns of all rows; NULL if it fails, with the extended code. */
static char *result(sqlite3 *db, const char *query, int *code)
{
	sqlite3_str *all = sqlite3_str_new(db);
	sqlite3_stmt *statement = NULL;

	*code = sqlite3_prepare_v2(db, query, -1, &statement, NULL);
	while (*code == SQLITE_OK || *code == SQLITE_ROW) {
		*code = sqlite3_step(statement);
		for (int i = 0; *code == SQLITE_ROW && i < sqlite3_column_count(statement); i++)
			sqlite3_str_appendf(all, "%s|", sqlite3_column_text(statement, i));
	}
	if (*code != SQLITE_DONE)
		*code = sqlite3_extended_errcode(db);
	sqlite3_finalize(statement);
	return sqlite3_str_finish(all);
}

static void are_the_same(sqlite3 *set, sqlite3 *plain)
{
	for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
		int codes[2];
		char *ours = result(set, queries[i], &codes[0]);
		char *expected = result(plain, queries[i], &codes[1]);

		EXPECT(codes[0] == SQLITE_DONE && codes[1] == SQLITE_DONE);
		EXPECT(ours && expected && strlen(expected) > 1 && strcmp(ours, expected) == 0);
		sqlite3_free(ours);
		sqlite3_free(expected);
	}
}

static void is_not_written(sqlite3 *set)
{
	EXPECT(sqlite3_db_readonly(set, "main") == 1);
	EXPECT(sqlite3_exec(set, "DELETE FROM kv", NULL, NULL, NULL) == SQLITE_READONLY);
}

static void fails(sqlite3 *set)
{
	int code;

	sqlite3_free(result(set, queries[0], &code));
	EXPECT(code == SQLITE_IOERR_READ);
}

/* What cannot be opened is not. */
static void is_refused(const char *plain, const char *parameters)
{
	char *uri = sqlite3_mprintf("file:%s?vfs=trimtab&%s", plain, parameters);
	sqlite3 *db = NULL;

	EXPECT(sqlite3_open_v2(uri, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL) ==
	       SQLITE_CANTOPEN);
	sqlite3_close(db);
	sqlite3_free(uri);
}

int main(int argc, char **argv)
{
	struct trimtab_set_figures figures;
	sqlite3 *set, *second, *plain;
	char line[16];

	if (argc != 4)
		return 2;
	EXPECT(trimtab_vfs_register(0) == SQLITE_OK && trimtab_vfs_register(0) == SQLITE_OK);
	set = opened(argv[1]);
	second = opened(argv[1]);
	plain = opened(argv[2]);
	EXPECT(trimtab_vfs_figures(set, &figures) == SQLITE_OK && figures.replicas == 3);
	EXPECT(trimtab_vfs_figures(plain, &figures) == SQLITE_NOTFOUND);
	is_refused(argv[2], "replica1=/nowhere/else");
	is_refused(argv[2], "replica1=/dev/null");
	is_refused(argv[2], "strategy=best");
	is_refused(argv[2], "deadline_us=-1");
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		return 2;
	if (strcmp(argv[3], "same") == 0) {
		are_the_same(set, plain);
		is_not_written(set);
	} else {
		fails(set);
	}
	EXPECT(trimtab_vfs_figures(second, &figures) == SQLITE_OK && figures.reads > 0);
	for (uint64_t i = 0; i < figures.replicas; i++)
		printf("%llu %llu ", (unsigned long long)figures.replica[i].served,
		       (unsigned long long)figures.replica[i].errors);
	printf("\n");
	fflush(stdout);
	EXPECT(sqlite3_close(set) == SQLITE_OK && sqlite3_close(second) == SQLITE_OK);
	EXPECT(sqlite3_close(plain) == SQLITE_OK);
	return failures != 0;
}
