/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Refuses reads inside the kernel, for the programs of one control group.
 *
 *   file_permission   a read is about to be submitted      -> -EBUSY, or it goes on
 *   file_open         a file is opened for direct reads    -> user space may name it
 *
 * The first hook is passed by pread, preadv2, io_uring and all other ways to read. It sees
 * neither offset nor length, so the decision is about the drive: user space publishes the
 * wait that a read of it is expected to have.
 *
 * Everything else is admitted: writes, buffered reads (they may be in the page cache), files
 * that are not named, programs outside of the control group, and any read whose drive has no
 * fresh expectation. There are no loops, so the programs' size bounds the longest path.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "refuse.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define EBUSY 16
/* include/linux/fs.h */
#define MAY_READ 4

const volatile struct rf_setup rf_setup SEC(".rodata.setup") = {};
volatile struct rf_health rf_health SEC(".data.health") = {};

/* So that the type information has the events' type: they are only pointed to. */
const struct rf_opened *rf_opened_type = 0;

/* The control group. */
struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} rf_group SEC(".maps");

/* The named files, by inode: the mark ends with the inode, and no other file inherits it. */
struct {
	__uint(type, BPF_MAP_TYPE_INODE_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct rf_file);
} rf_files SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RF_DRIVES);
	__type(key, __u32);
	__type(value, struct rf_drive);
} rf_drives SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RF_DRIVES);
	__type(key, __u32);
	__type(value, struct rf_late);
} rf_lates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rf_counts);
} rf_counters SEC(".maps");

/* Some 250 files that were opened since user space looked last. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} rf_openings SEC(".maps");

static __always_inline void count(__u32 reason)
{
	__u32 zero = 0;
	struct rf_counts *counters = bpf_map_lookup_elem(&rf_counters, &zero);

	/* Atomic, because the task may be preempted in the middle. */
	if (counters)
		__sync_fetch_and_add(&counters->counts[reason & (RF_REASONS - 1)], 1);
}

/* Whether a read that is expected to be late is one of the share that is admitted: spread
 * evenly over the late reads of the drive. */
static __always_inline bool is_in_share(__u32 drive)
{
	struct rf_late *late = bpf_map_lookup_elem(&rf_lates, &drive);
	__u64 reads;

	if (!late)
		return true;
	reads = __sync_fetch_and_add(&late->reads, 1);
	return (reads + 1) * rf_setup.share / RF_WHOLE != reads * rf_setup.share / RF_WHOLE;
}

/* The decision about a read of a named file. */
static __always_inline __u32 decide(__u32 index)
{
	struct rf_drive *drive = bpf_map_lookup_elem(&rf_drives, &index);
	__u64 published, now;

	if (!drive)
		return RF_NOT_ON_DRIVE;
	published = *(volatile __u64 *)&drive->published_ns;
	if (!published)
		return RF_NOT_TRACKED;
	now = bpf_ktime_get_ns();
	/* The publisher's clock may be a little ahead of this CPU's. */
	if (now > published && now - published > rf_setup.stale_ns)
		return RF_STALE;
	if (drive->reason != RF_IN_TIME)
		return drive->reason ?: RF_UNSURE;
	if (drive->wait_ns <= rf_setup.limit_ns)
		return RF_IN_TIME;
	return is_in_share(index) ? RF_SHARE : RF_REFUSED;
}

SEC("lsm/file_permission")
int BPF_PROG(on_permission, struct file *file, int mask, int ret)
{
	struct rf_file *named;
	__u32 reason;

	/* The cheap questions first: every read and write of the machine comes here. */
	if (ret || !(mask & MAY_READ) || !(file->f_flags & rf_setup.o_direct))
		return ret;
	if (bpf_current_task_under_cgroup(&rf_group, 0) != 1)
		return 0;
	named = bpf_inode_storage_get(&rf_files, file->f_inode, 0, 0);
	if (!named)
		return 0;
	reason = decide(named->drive);
	count(reason);
	return reason == RF_REFUSED ? -EBUSY : 0;
}

SEC("lsm/file_open")
int BPF_PROG(on_open, struct file *file, int ret)
{
	struct rf_opened *opened;
	long length;

	if (!rf_health.was_called)
		rf_health.was_called = 1;
	if (ret || !(file->f_flags & rf_setup.o_direct))
		return ret;
	if (bpf_current_task_under_cgroup(&rf_group, 0) != 1)
		return 0;
	if (bpf_inode_storage_get(&rf_files, file->f_inode, 0, 0))
		return 0;
	opened = bpf_ringbuf_reserve(&rf_openings, sizeof(*opened), 0);
	if (!opened) {
		__sync_fetch_and_add((__u64 *)&rf_health.lost, 1);
		return 0;
	}
	opened->inode = file->f_inode->i_ino;
	opened->device = file->f_inode->i_sb->s_dev;
	length = bpf_d_path(&file->f_path, opened->path, sizeof(opened->path));
	opened->length = length < 0 ? 0 : length;
	bpf_ringbuf_submit(opened, 0);
	return 0;
}
