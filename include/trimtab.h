/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Reads with a deadline, and reads from the best of several replicas.
 *
 * Replicas with the same content are best read as a set:
 *
 *     struct trimtab_replica replicas[3] = {
 *             { .path = "/mnt/a/data", .model = "nvme0n1.safetensors" },
 *             { .path = "/mnt/b/data", .model = "nvme1n1.safetensors" },
 *             { .path = "/mnt/c/data" },
 *     };
 *     trimtab_set *set = trimtab_set_open(replicas, 3, NULL, 0);
 *     if (!set)
 *             errx(1, "%s", trimtab_last_error());
 *     ssize_t n = trimtab_set_read_at(set, page, sizeof page, 8192, TRIMTAB_NO_DEADLINE);
 *     trimtab_set_close(set);
 *
 * Where the replicas are not alike, or the program selects them itself, each has a reader:
 *
 *     trimtab_reader *r = trimtab_open("/mnt/a/data", "nvme0n1.safetensors", 0);
 *     if (!r)
 *             errx(1, "%s", trimtab_last_error());
 *     int64_t within_ns = 500 * 1000;
 *     ssize_t n = trimtab_read_at(r, page, sizeof page, 8192, within_ns);
 *     if (n < 0 && errno == EBUSY)
 *             n = read_from_another_replica(...);
 *     trimtab_close(r);
 *
 * A read that is predicted to miss its deadline fails with EBUSY and is not submitted to the
 * drive. A good deadline is the 95th percentile of the program's own reads.
 * TRIMTAB_FAST_OR_REFUSE, below, is seldom the right start. Read the last replica with
 * TRIMTAB_NO_DEADLINE, which is never refused. Without a prediction (no model, a drive that
 * is not tracked, a file that is on no disk) reads are submitted normally and counted.
 *
 * Linked with -ltrimtab. docs/reading.md says more.
 *
 * A read with a deadline in nanoseconds returns by then, whatever the drive does: with
 * ETIMEDOUT if the data have not come. The buffer is the caller's again, and is not written
 * to when they come later. So it is without a model too.
 *
 * Threads: a reader may be used by any number of threads at once, except that
 * trimtab_close() must be the last to use it. What trimtab_last_error() and
 * trimtab_refused_wait() tell is each thread's own. No function takes a lock on the way
 * of a read by a reader, and none calls back. After fork() only the parent is to use a
 * reader. Each thread that reads with a deadline has an io_uring (a descriptor) and a buffer
 * until it ends; where io_uring is not allowed, a few threads of the library's read for all.
 * The same holds for a set, with these differences: a read takes the set's lock for the
 * time of a decision; the io_uring and the buffers are one for each thread and set, until
 * the thread ends or reads from another set after this one is closed; and a child process
 * may use a set if no other thread was reading from it at the fork().
 */
#ifndef TRIMTAB_H
#define TRIMTAB_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The interface described here; the library's is trimtab_version(). */
#define TRIMTAB_VERSION 8

/*
 * How long a read may take, instead of a number of nanoseconds.
 *
 * TRIMTAB_FAST_OR_REFUSE refuses where the model says "late", by the label that it was
 * trained to: by default, what another replica would answer sooner, including the failover
 * that was given to `trimtab train --failover`. It is for replicas that answer at once and
 * cost nothing to ask, and for experiments with a predictor. On a drive whose reads all take
 * about the same nothing is late, and its model refuses nothing.
 */
#define TRIMTAB_NO_DEADLINE ((int64_t)-1)   /* as long as it takes: never refused */
/*
 * Refused where it would be late. It is no time: one that was sent takes as long as it
 * takes. Where no thread may hang, give a number of nanoseconds.
 */
#define TRIMTAB_FAST_OR_REFUSE ((int64_t)0)
/*
 * A deadline that follows the last reads of the reader or set: the p95, loosened and tightened
 * by the share refused, and by what failing over costs, which trimtab_failed_over() and
 * trimtab_set_failed_over() report. docs/reading.md has the law and its bounds. Since version 6;
 * of sets since version 7.
 */
#define TRIMTAB_AUTO_DEADLINE ((int64_t)-2)

/* Flags of trimtab_open() and of the options. */
#define TRIMTAB_DIRECT 1u /* O_DIRECT: offset, length and buffer must be aligned */

/* A device or file that is read from. */
typedef struct trimtab_reader trimtab_reader;

/* Counters of a reader since it was opened. */
struct trimtab_figures {
	uint64_t without_deadline;    /* reads without a deadline: not decided on */
	uint64_t with_deadline;       /* reads with one: the sum of the next seven */
	uint64_t admitted;            /* submitted, because predicted to be in time */
	uint64_t refused;
	uint64_t cached;              /* predicted late, but served from the page cache */
	uint64_t probed;              /* predicted late, submitted as a probe */
	uint64_t sampled;             /* predicted late, submitted as a sample */
	uint64_t over_cap;            /* predicted late, but the refusal cap was reached */
	uint64_t failed_open;         /* submitted without a prediction */
	uint64_t late;                /* of the admitted: late */
	uint64_t forced_samples;      /* probed, sampled or over the cap, and completed */
	uint64_t fast_forced_samples; /* of these: fast, so a refusal would have been wrong */
	/* Why failed_open: the sum of these, and of two at the end. Since version 2. */
	uint64_t no_model;            /* no model was given */
	uint64_t other_model;         /* its parallel units differ from those tracked */
	uint64_t other_drive;         /* the model was trained on another drive */
	uint64_t no_device;           /* not on a disk with requests in the block layer */
	uint64_t not_tracked;         /* the drive is not tracked */
	uint64_t stale;               /* the tracker's last heartbeat is too old */
	uint64_t unsure;              /* the model cannot decide */
	/* Since version 3. */
	uint64_t bounded;             /* of the refused: too many reads were in flight */
	uint64_t timed_out;           /* submitted, but not completed by the deadline */
	/* Since version 4: of failed_open too. */
	uint64_t several_drives;      /* several drives hold it, or any of several may serve it */
	uint64_t unknown_mapping;     /* the mapping to the drives is unknown */
	/* Since version 6. */
	uint64_t evicted;             /* of the refused: expected in memory, and gone from there */
	uint64_t first_accesses;      /* of the admitted: expected in memory, never seen there */
};

/*
 * How a reader decides: for trimtab_open_with(), filled in by trimtab_default_options()
 * and then changed. The default is the last word of each comment. Since version 2; later
 * versions may add members at the end.
 */
struct trimtab_options {
	const char *model;       /* a file of `trimtab train`; NULL: none, nothing is refused */
	const char *pins;        /* directory of the pinned state; NULL: /sys/fs/bpf/trimtab */
	uint64_t oldest_ns;      /* greatest age of the state: 1 s */
	uint64_t probe_every_ns; /* interval of probes to an avoided drive: 10 ms */
	double most_refused;     /* the most of each second's reads, 0 to 1: 0.98 */
	uint32_t probes_out;     /* most reads predicted late, 1 or more, in flight on a
				  * drive, regardless of most_refused: 4 */
	uint32_t sample_every;   /* one in this many refusals is submitted; 0: none. 1000 */
	uint32_t flags;          /* TRIMTAB_DIRECT: 0 */
	uint32_t reserved;       /* 0 */
	/* Since version 3. */
	uint32_t most_abandoned; /* with this many timed-out reads of a drive in flight, reads
				  * with a deadline are refused; 0: the default, 64 */
	uint32_t reserved_too;   /* 0 */
	/* Since version 6. */
	uint64_t memory_below_ns; /* a read with a shorter deadline is expected in the page cache;
				   * 0: the least latency seen of the drive. 0 */
	uint64_t failover_ns;     /* for TRIMTAB_AUTO_DEADLINE, what a failover costs before one
				   * is reported; 0: the default, 300 us */
};

/*
 * Sets of replicas, since version 5.
 */

/* Two to eight files or block devices with the same content. */
typedef struct trimtab_set trimtab_set;

/* The most replicas of a set. */
#define TRIMTAB_MOST_REPLICAS 8

/* The deadline of a read is that of the set's options. */
#define TRIMTAB_SET_DEADLINE ((int64_t)0)

/* A replica. Members that are not named are 0. */
struct trimtab_replica {
	const char *path;
	const char *model;    /* a file of `trimtab train` or `trimtab profile queue`;
			       * NULL: none, the set decides by
			       * its reads in flight and the latencies it has seen */
	const char *pins;     /* directory of the pinned state; NULL: /sys/fs/bpf/trimtab */
	uint64_t reserved[3]; /* 0 */
};

/*
 * Which replicas a set's reads go to. The last three are to compare with. Since version 8.
 */
enum trimtab_strategy {
	/* trimtab's own. */
	TRIMTAB_STRATEGY_TRIMTAB = 0,
	/* The primary replica only. */
	TRIMTAB_STRATEGY_BASE = 1,
	/* Another replica too if the primary has not answered after strategy_ns. */
	TRIMTAB_STRATEGY_HEDGE = 2,
	/* The first replica whose model does not expect a longer latency than strategy_ns; the last
	 * one if all do (MittOS). */
	TRIMTAB_STRATEGY_MITT = 3,
};

/*
 * How a set reads: filled in by trimtab_set_default_options() and then changed. The default is
 * the last word of each comment. Later versions may add members at the end.
 */
struct trimtab_set_options {
	uint64_t deadline_ns; /* how long a read may take; 0: as long as it takes. 0 */
	double most_extra;    /* the greatest share of reads sent twice, 0 to 1, in the long
			       * run; what a deadline needs is not limited: 0.2 */
	uint64_t oldest_ns;   /* greatest age of the drives' state: 1 s */
	uint64_t seed;        /* of random choices: 1 */
	uint32_t flags;       /* TRIMTAB_DIRECT, for which nothing must be aligned: 0 */
	/* Since version 8. */
	uint32_t strategy;    /* enum trimtab_strategy: 0 */
	uint64_t strategy_ns; /* for the strategies that have a time: 0 */
};

/* Counters of a set since it was opened. */
struct trimtab_set_figures {
	uint64_t reads;         /* reads; longer ones count once for each MiB */
	uint64_t errors;        /* no replica could serve them */
	uint64_t timed_out;     /* no replica answered within the deadline */
	uint64_t plain;         /* served by one replica at a time: nothing could be hedged */
	uint64_t moved;         /* sent first to another replica than their primary one */
	uint64_t extra;         /* requests sent, beyond one for each read */
	uint64_t hedges;        /* of these: because the read took longer than expected */
	uint64_t rescues;       /* of these: to keep a deadline, or after a very long time */
	uint64_t probes;        /* of these: to learn, and for the control group */
	uint64_t without_model; /* reads of which not all replicas were forecast by a model */
	uint64_t copied_bytes;  /* copied from the library's buffers to the program's */
	/* What moving reads gains, measured on a control group that is sent to both. */
	uint64_t control_pairs; /* moved reads of the control group */
	int64_t gain_ns;        /* the mean gain of a moved read, ns; negative for a loss */
	uint64_t gain_error_ns; /* its standard error, ns */
	uint64_t replicas;      /* how many replicas there are */
	uint64_t beyond_p99_ppm; /* of a million moved reads, how many took longer than 99% of
				  * them did at their primary: 10000 if moving changes nothing,
				  * less if it gains; 0 with fewer than 1000 control_pairs */
	struct {
		uint64_t served;     /* reads that it served */
		uint64_t sent;       /* requests that it was sent */
		uint64_t errors;     /* requests that failed */
		uint64_t typical_ns; /* its median latency */
		uint64_t is_down;    /* 1: failed or unresponsive, and only probed */
		uint64_t reserved;
	} replica[TRIMTAB_MOST_REPLICAS];
};

/* Fills in the defaults: `size` is sizeof *options. NULL is fine. Cannot fail. */
void trimtab_set_default_options(struct trimtab_set_options *options, size_t size);

/*
 * Opens a set of `count` replicas, two to eight. `options` may be NULL for the defaults;
 * `size` is sizeof *options. The strings need not outlive the call. The replicas must have the
 * same length; that they have the same content, also when it is written to, is up to the
 * program.
 *
 * Returns NULL and sets errno if that fails: EINVAL for a wrong number of replicas, a file or
 * device given twice (by device and inode), replicas of different lengths, one that is neither
 * file nor block device, a file that is no model, and options that cannot be; otherwise as
 * open(2) for the first replica that cannot be opened. trimtab_last_error() names the replica.
 */
trimtab_set *trimtab_set_open(const struct trimtab_replica *replicas, size_t count,
			      const struct trimtab_set_options *options, size_t size);

/*
 * Reads as pread(2) does, from the best replica. Returns less than asked only at the end of
 * the file. `within_ns` is the nanoseconds that it may take, TRIMTAB_SET_DEADLINE,
 * TRIMTAB_NO_DEADLINE or TRIMTAB_AUTO_DEADLINE.
 *
 * Returns -1 and sets errno if that fails: ETIMEDOUT if no replica has answered within the
 * deadline, EINVAL for a NULL set or buffer, or a negative offset; otherwise the error of the
 * last replica, when all have failed. The buffer is not written to after the return.
 */
ssize_t trimtab_set_read_at(trimtab_set *set, void *buffer, size_t length, off_t offset,
			    int64_t within_ns);

/*
 * Reports that a read with TRIMTAB_AUTO_DEADLINE missed its deadline, and the data came from
 * outside of the set, `took_ns` nanoseconds after the read had begun. Since version 7.
 *
 * Returns 0, or -1 with errno EINVAL for a NULL set or a negative time.
 */
int trimtab_set_failed_over(trimtab_set *set, int64_t took_ns);

/*
 * The present deadline of reads with TRIMTAB_AUTO_DEADLINE, nanoseconds. Since version 7.
 *
 * Returns -1 with errno EINVAL for a NULL set.
 */
int64_t trimtab_set_auto_deadline(trimtab_set *set);

/*
 * Copies the figures, as many bytes of them as the program knows (sizeof *figures).
 *
 * Returns 0, or -1 with errno EINVAL for a NULL set or figures.
 */
int trimtab_set_get_figures(trimtab_set *set, struct trimtab_set_figures *figures, size_t size);

/* Closes a set that no thread uses any more. NULL is fine. Cannot fail. */
void trimtab_set_close(trimtab_set *set);

/*
 * The version of the interface that the library has: at least the TRIMTAB_VERSION that
 * a program was compiled with. Cannot fail.
 */
uint32_t trimtab_version(void);

/*
 * Opens a device or file for reading, with the model of its drive (a file of `trimtab
 * train`; NULL: none, nothing is refused). The drive's state is what somebody keeps at
 * /sys/fs/bpf/trimtab (`trimtab watch --pin`); it may come and go later.
 *
 * Returns NULL and sets errno if that fails: EINVAL for a NULL path, unknown flags, or a
 * model that is none; otherwise as open(2).
 */
trimtab_reader *trimtab_open(const char *path, const char *model, unsigned int flags);

/* The same, with the state kept at another place than /sys/fs/bpf/trimtab. */
trimtab_reader *trimtab_open_pinned(const char *path, const char *model, unsigned int flags,
				    const char *pins);

/* Fills in what is so by default: `size` is sizeof *options. NULL is fine. Cannot fail. */
void trimtab_default_options(struct trimtab_options *options, size_t size);

/*
 * The same, with options: `size` is sizeof *options. The strings need not outlive the call.
 *
 *     struct trimtab_options options;
 *     trimtab_default_options(&options, sizeof options);
 *     options.model = "nvme0n1.safetensors";
 *     options.most_refused = 0.5;
 *     reader = trimtab_open_with("/mnt/a/data", &options, sizeof options);
 *
 * Returns NULL and sets errno as trimtab_open() does; EINVAL too for an option that cannot
 * be, and for one that is set and that the library, which is older, does not know.
 */
trimtab_reader *trimtab_open_with(const char *path, const struct trimtab_options *options,
				  size_t size);

/*
 * Reads as pread(2) does, and may as well return less than asked. `within_ns` is the
 * nanoseconds that it may take, TRIMTAB_NO_DEADLINE, TRIMTAB_FAST_OR_REFUSE or
 * TRIMTAB_AUTO_DEADLINE. A deadline below the least latency of the drive expects memory: it
 * is refused if its pages were in the page cache and are gone, and not on first access.
 *
 * Returns -1 and sets errno if that fails: EBUSY if the read was refused and not sent,
 * ETIMEDOUT if `within_ns` nanoseconds had passed and the data had not come, EINVAL for a
 * NULL reader or buffer, or a negative offset; otherwise as pread(2). After EBUSY and
 * ETIMEDOUT another replica is to be asked; with TRIMTAB_NO_DEADLINE there is neither.
 */
ssize_t trimtab_read_at(trimtab_reader *reader, void *buffer, size_t length, off_t offset,
			int64_t within_ns);

/*
 * Whether `length` bytes of mapped memory at `address` can be read within `within_ns`
 * nanoseconds: they are in memory, or the drive is expected to deliver them by then. For
 * memory that is mapped from a file, before an access that must not wait; the memory is not
 * touched. With 0 nanoseconds it must be in memory, TRIMTAB_NO_DEADLINE checks only whether
 * it is mapped. Since version 6.
 *
 * Pages are refused only if an earlier check found them in memory, never at their first
 * check, and are brought in in the background. Always accepted: no bytes, memory of no file,
 * and files of which the kernel does not tell what is in memory (those that the process
 * neither owns nor may write).
 *
 * Returns 0, or -1 with errno: EBUSY if some pages are gone and would take longer
 * (trimtab_refused_wait() tells how long), ENOMEM if some of the range is not mapped or
 * passes the end of the address space, EINVAL for another negative `within_ns`.
 *
 * Any thread may call it, and a child process too.
 */
int trimtab_addrcheck(const void *address, size_t length, int64_t within_ns);

/*
 * Reports that a read with TRIMTAB_AUTO_DEADLINE was refused or missed its deadline, and the
 * data came from elsewhere, `took_ns` nanoseconds after the first request. Since version 6.
 *
 * Returns 0, or -1 with errno EINVAL for a NULL reader or a negative time.
 */
int trimtab_failed_over(trimtab_reader *reader, int64_t took_ns);

/*
 * The present deadline of reads with TRIMTAB_AUTO_DEADLINE, nanoseconds. Since version 6.
 *
 * Returns -1 with errno EINVAL for a NULL reader.
 */
int64_t trimtab_auto_deadline(trimtab_reader *reader);

/*
 * How many nanoseconds a read would take if it were sent now. Sends and counts nothing.
 *
 * Returns -1 and sets errno if that cannot be told: ENODATA if there is nothing to tell
 * it by, EINVAL for a NULL reader or a negative offset.
 */
int64_t trimtab_expected_wait(trimtab_reader *reader, size_t length, off_t offset);

/*
 * How many nanoseconds the read that was refused last in this thread had been expected
 * to take; -1 if none was refused, or the model cannot tell. Does not set errno.
 */
int64_t trimtab_refused_wait(void);

/*
 * Copies the figures, as many bytes of them as the program knows (sizeof *figures).
 *
 * Returns 0, or -1 with errno EINVAL for a NULL reader or figures.
 */
int trimtab_get_figures(trimtab_reader *reader, struct trimtab_figures *figures, size_t size);

/*
 * What went wrong last in this thread, in one line; "" if nothing did. Valid until the
 * thread's next call that fails. Never NULL, does not set errno.
 */
const char *trimtab_last_error(void);

/* Closes a reader that no thread uses any more. NULL is fine. Cannot fail. */
void trimtab_close(trimtab_reader *reader);

#ifdef __cplusplus
}
#endif

#endif
