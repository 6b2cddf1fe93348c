/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A VFS for SQLite that reads a database from the best of two to eight copies.
 *
 *     trimtab_vfs_register(0);
 *     sqlite3_open_v2("file:/mnt/a/db?vfs=trimtab&replica1=/mnt/b/db&replica2=/mnt/c/db", &db,
 *                     SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
 *
 * The database is opened read-only. Its pages come from a set of replicas
 * (trimtab_set_open()); connections with the same parameters share one. All else, temporary
 * files among it, is the default VFS's. A page that no replica returns is SQLITE_IOERR_READ.
 *
 * The database's own path is replica 0. The other parameters of the URI:
 *
 *     replica1 ... replica7     paths of the other copies, which are equal byte for byte. Without
 *                               any, the environment's TRIMTAB_REPLICAS, separated by colons
 *     model0 ... model7         models of their drives (trimtab train, trimtab profile queue)
 *     pins                      directory of the drives' state, as in struct trimtab_replica
 *     deadline_us               how long the read of a page may take; 0, the default: as long as
 *                               it takes. A page that is later is SQLITE_IOERR_READ
 *     direct                    1: read past the page cache. 0, the default: do not
 *     strategy                  trimtab (default), base, hedge or mitt
 *     strategy_us               for hedge: the delay; for mitt: the deadline
 */
#ifndef TRIMTAB_VFS_H
#define TRIMTAB_VFS_H

#include <sqlite3.h>
#include <trimtab.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Registers the VFS "trimtab"; is_default as in sqlite3_vfs_register(). */
int trimtab_vfs_register(int is_default);

/* The figures of the set that the database `main` of a connection reads from.
 *
 * Returns SQLITE_OK, or SQLITE_NOTFOUND for a connection of another VFS. */
int trimtab_vfs_figures(sqlite3 *db, struct trimtab_set_figures *figures);

#ifdef __cplusplus
}
#endif

#endif
