/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The VFS "trimtab": trimtab_vfs.h describes it. A shim as in SQLite's own test_demovfs and
 * "The SQLite OS Interface or VFS" (https://sqlite.org/vfs.html): the default VFS opens each
 * file into the end of ours, and for the main database xRead is replaced.
 */
#include "trimtab_vfs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "trimtab"
#define MOST TRIMTAB_MOST_REPLICAS
/* xFileControl: our figures. SQLite leaves codes above 100 to VFSes. */
#define GET_FIGURES 0x7472696d

/* A set of replicas, for all connections with the same parameters. */
struct shared {
	struct shared *next;
	char *key;
	int users;
	trimtab_set *set;
};

/* A main database; the default VFS's file follows it. */
struct file {
	sqlite3_file base;
	struct shared *shared;
	int64_t within_ns;
};

static struct shared *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static sqlite3_vfs *below(sqlite3_vfs *vfs)
{
	return vfs->pAppData;
}

/* Where the default VFS's file begins: aligned as malloc()'s memory. */
static size_t head(void)
{
	return (sizeof(struct file) + 15) & ~(size_t)15;
}

static sqlite3_file *real(sqlite3_file *file)
{
	return (sqlite3_file *)((char *)file + head());
}

/* ---- parameters ---- */

struct parameters {
	struct trimtab_replica replicas[MOST];
	size_t count;
	struct trimtab_set_options options;
	char *from_environment;
};

static const char *numbered(const char *name, const char *key, size_t i)
{
	char full[32];

	snprintf(full, sizeof full, "%s%zu", key, i);
	return sqlite3_uri_parameter(name, full);
}

/* The parameter in microseconds as nanoseconds, 0 if there is none; -1: it is no such number. */
static int64_t microseconds(const char *name, const char *key)
{
	const char *text = sqlite3_uri_parameter(name, key);
	char *end;
	long long number;

	if (!text)
		return 0;
	number = strtoll(text, &end, 10);
	if (end == text || *end || number < 0 || number > INT32_MAX)
		return -1;
	return number * 1000;
}

static int strategy(const char *text)
{
	static const char *const names[] = { "trimtab", "base", "hedge", "mitt" };

	for (int i = 0; text && i < 4; i++)
		if (strcmp(text, names[i]) == 0)
			return i;
	return text ? -1 : 0;
}

/* Paths of the other copies; returns 0, or -1 if there are too many or too little memory. */
static int find_replicas(const char *name, struct parameters *to)
{
	const char *given = getenv("TRIMTAB_REPLICAS");

	to->replicas[to->count++].path = name;
	for (size_t i = 1; i < MOST; i++) {
		const char *path = numbered(name, "replica", i);

		if (path)
			to->replicas[to->count++].path = path;
	}
	if (to->count > 1 || !given)
		return 0;
	to->from_environment = strdup(given);
	if (!to->from_environment)
		return -1;
	for (char *rest, *path = strtok_r(to->from_environment, ":", &rest); path;
	     path = strtok_r(NULL, ":", &rest)) {
		if (to->count == MOST)
			return -1;
		to->replicas[to->count++].path = path;
	}
	return 0;
}

static int find_parameters(const char *name, struct parameters *to)
{
	int64_t deadline = microseconds(name, "deadline_us");
	int64_t of_strategy = microseconds(name, "strategy_us");
	int which = strategy(sqlite3_uri_parameter(name, "strategy"));

	memset(to, 0, sizeof *to);
	if (deadline < 0 || of_strategy < 0 || which < 0 || find_replicas(name, to) != 0)
		return -1;
	for (size_t i = 0; i < to->count; i++) {
		to->replicas[i].model = numbered(name, "model", i);
		to->replicas[i].pins = sqlite3_uri_parameter(name, "pins");
	}
	trimtab_set_default_options(&to->options, sizeof to->options);
	to->options.deadline_ns = (uint64_t)deadline;
	to->options.strategy = (uint32_t)which;
	to->options.strategy_ns = (uint64_t)of_strategy;
	if (sqlite3_uri_boolean(name, "direct", 0))
		to->options.flags |= TRIMTAB_DIRECT;
	return 0;
}

/* ---- sets ---- */

/* The path with all parameters, in one string. */
static char *key_of(const char *name)
{
	sqlite3_str *key = sqlite3_str_new(NULL);
	const char *parameter;

	sqlite3_str_appendall(key, name);
	for (int i = 0; (parameter = sqlite3_uri_key(name, i)) != NULL; i++)
		sqlite3_str_appendf(key, "\n%s=%s", parameter,
				    sqlite3_uri_parameter(name, parameter));
	return sqlite3_str_finish(key);
}

static struct shared *open_set(const char *name, char *key)
{
	struct shared *shared = calloc(1, sizeof *shared);
	struct parameters parameters;

	if (!shared)
		return NULL;
	if (find_parameters(name, &parameters) != 0) {
		sqlite3_log(SQLITE_CANTOPEN, "trimtab: %s: a parameter is invalid", name);
	} else {
		shared->set = trimtab_set_open(parameters.replicas, parameters.count,
					       &parameters.options, sizeof parameters.options);
		if (!shared->set)
			sqlite3_log(SQLITE_CANTOPEN, "trimtab: %s", trimtab_last_error());
	}
	free(parameters.from_environment);
	if (!shared->set) {
		free(shared);
		return NULL;
	}
	shared->key = key;
	shared->users = 1;
	shared->next = all;
	all = shared;
	return shared;
}

/* The set of these parameters, opened if no connection has it; NULL: it cannot be opened. */
static struct shared *take(const char *name)
{
	struct shared *found;
	char *key = key_of(name);

	if (!key)
		return NULL;
	pthread_mutex_lock(&lock);
	for (found = all; found && strcmp(found->key, key) != 0;)
		found = found->next;
	if (found) {
		found->users++;
		sqlite3_free(key);
	} else {
		found = open_set(name, key);
		if (!found)
			sqlite3_free(key);
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static void give_back(struct shared *shared)
{
	pthread_mutex_lock(&lock);
	if (--shared->users == 0) {
		struct shared **at = &all;

		while (*at != shared)
			at = &(*at)->next;
		*at = shared->next;
		trimtab_set_close(shared->set);
		sqlite3_free(shared->key);
		free(shared);
	}
	pthread_mutex_unlock(&lock);
}

/* ---- methods of a main database ---- */

static int x_close(sqlite3_file *file)
{
	give_back(((struct file *)file)->shared);
	return real(file)->pMethods->xClose(real(file));
}

static int x_read(sqlite3_file *file, void *buffer, int length, sqlite3_int64 offset)
{
	struct file *ours = (struct file *)file;
	ssize_t n = trimtab_set_read_at(ours->shared->set, buffer, (size_t)length, offset,
					TRIMTAB_SET_DEADLINE);

	if (n < 0) {
		sqlite3_log(SQLITE_IOERR_READ, "trimtab: %s at %lld: %s", ours->shared->key,
			    offset, trimtab_last_error());
		return SQLITE_IOERR_READ;
	}
	if (n < length) {
		/* SQLite wants the rest as zeroes. */
		memset((char *)buffer + n, 0, (size_t)(length - n));
		return SQLITE_IOERR_SHORT_READ;
	}
	return SQLITE_OK;
}

/* The database is read-only: SQLite does not call the next three. */
static int x_write(sqlite3_file *file, const void *data, int length, sqlite3_int64 offset)
{
	(void)file, (void)data, (void)length, (void)offset;
	return SQLITE_READONLY;
}

static int x_truncate(sqlite3_file *file, sqlite3_int64 length)
{
	(void)file, (void)length;
	return SQLITE_READONLY;
}

static int x_sync(sqlite3_file *file, int flags)
{
	(void)file, (void)flags;
	return SQLITE_OK;
}

static int x_file_size(sqlite3_file *file, sqlite3_int64 *size)
{
	return real(file)->pMethods->xFileSize(real(file), size);
}

static int x_lock(sqlite3_file *file, int level)
{
	return real(file)->pMethods->xLock(real(file), level);
}

static int x_unlock(sqlite3_file *file, int level)
{
	return real(file)->pMethods->xUnlock(real(file), level);
}

static int x_check_reserved_lock(sqlite3_file *file, int *result)
{
	return real(file)->pMethods->xCheckReservedLock(real(file), result);
}

static int x_file_control(sqlite3_file *file, int code, void *argument)
{
	if (code == GET_FIGURES) {
		trimtab_set *set = ((struct file *)file)->shared->set;

		trimtab_set_get_figures(set, argument, sizeof(struct trimtab_set_figures));
		return SQLITE_OK;
	}
	return real(file)->pMethods->xFileControl(real(file), code, argument);
}

static int x_sector_size(sqlite3_file *file)
{
	return real(file)->pMethods->xSectorSize(real(file));
}

static int x_device_characteristics(sqlite3_file *file)
{
	return real(file)->pMethods->xDeviceCharacteristics(real(file));
}

/* Version 1: no shared memory, thus no write-ahead log, and no mapping, which would pass xRead
 * by. */
static const sqlite3_io_methods methods = {
	.iVersion = 1,
	.xClose = x_close,
	.xRead = x_read,
	.xWrite = x_write,
	.xTruncate = x_truncate,
	.xSync = x_sync,
	.xFileSize = x_file_size,
	.xLock = x_lock,
	.xUnlock = x_unlock,
	.xCheckReservedLock = x_check_reserved_lock,
	.xFileControl = x_file_control,
	.xSectorSize = x_sector_size,
	.xDeviceCharacteristics = x_device_characteristics,
};

/* ---- the VFS ---- */

static int x_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
		  int *out_flags)
{
	struct file *ours = (struct file *)file;
	int code;

	/* Files but the database belong to the default VFS, in all our memory. */
	if (!name || !(flags & SQLITE_OPEN_MAIN_DB))
		return below(vfs)->xOpen(below(vfs), name, file, flags, out_flags);
	file->pMethods = NULL;
	if (flags & SQLITE_OPEN_READWRITE) {
		/* As the default VFS does where the file may not be written. */
		flags &= ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
		flags |= SQLITE_OPEN_READONLY;
	}
	code = below(vfs)->xOpen(below(vfs), name, real(file), flags, out_flags);
	if (code != SQLITE_OK)
		return code;
	ours->shared = take(name);
	if (!ours->shared) {
		real(file)->pMethods->xClose(real(file));
		return SQLITE_CANTOPEN;
	}
	file->pMethods = &methods;
	return SQLITE_OK;
}

/* Everything else is the default VFS's. */
static int x_delete(sqlite3_vfs *vfs, const char *name, int sync_directory)
{
	return below(vfs)->xDelete(below(vfs), name, sync_directory);
}

static int x_access(sqlite3_vfs *vfs, const char *name, int flags, int *result)
{
	return below(vfs)->xAccess(below(vfs), name, flags, result);
}

static int x_full_pathname(sqlite3_vfs *vfs, const char *name, int length, char *full)
{
	return below(vfs)->xFullPathname(below(vfs), name, length, full);
}

static int x_randomness(sqlite3_vfs *vfs, int length, char *bytes)
{
	return below(vfs)->xRandomness(below(vfs), length, bytes);
}

static int x_sleep(sqlite3_vfs *vfs, int microseconds)
{
	return below(vfs)->xSleep(below(vfs), microseconds);
}

static int x_current_time(sqlite3_vfs *vfs, double *days)
{
	return below(vfs)->xCurrentTime(below(vfs), days);
}

static int x_get_last_error(sqlite3_vfs *vfs, int length, char *text)
{
	return below(vfs)->xGetLastError(below(vfs), length, text);
}

/* Version 1 without the loading of extensions. */
static sqlite3_vfs ours = {
	.iVersion = 1,
	.zName = NAME,
	.xOpen = x_open,
	.xDelete = x_delete,
	.xAccess = x_access,
	.xFullPathname = x_full_pathname,
	.xRandomness = x_randomness,
	.xSleep = x_sleep,
	.xCurrentTime = x_current_time,
	.xGetLastError = x_get_last_error,
};

int trimtab_vfs_register(int is_default)
{
	if (!sqlite3_vfs_find(NAME)) {
		sqlite3_vfs *usual = sqlite3_vfs_find(NULL);

		if (!usual)
			return SQLITE_ERROR;
		ours.pAppData = usual;
		ours.mxPathname = usual->mxPathname;
		ours.szOsFile = (int)head() + usual->szOsFile;
	}
	return sqlite3_vfs_register(&ours, is_default);
}

int trimtab_vfs_figures(sqlite3 *db, struct trimtab_set_figures *figures)
{
	return sqlite3_file_control(db, "main", GET_FIGURES, figures);
}
