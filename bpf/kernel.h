/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The kernel types that the programs read, with only the fields in use. Offsets are filled
 * in for the running kernel when the programs are loaded (CO-RE), so building needs neither
 * kernel headers nor the BTF of the build machine.
 */
#ifndef TRIMTAB_KERNEL_H
#define TRIMTAB_KERNEL_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

/* Of the user API, linux/bpf.h. */
enum bpf_map_type {
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_CGROUP_ARRAY = 8,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_INODE_STORAGE = 28,
};
#define BPF_F_NO_PREALLOC (1U << 0)
#define BPF_F_MMAPABLE (1U << 10)

typedef __u64 sector_t;
typedef __u8 blk_status_t;
typedef _Bool bool;
#define true 1
#define false 0

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct gendisk {
	int major;
	int first_minor;
	__u64 diskseq; /* since Linux 5.15 */
};

struct request_queue {
	struct gendisk *disk;
};

struct bvec_iter {
	sector_t bi_sector;
	unsigned int bi_size;
};

struct block_device {
	struct gendisk *bd_disk;
};

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	unsigned int bi_opf;
	struct bvec_iter bi_iter;
};

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
	sector_t __sector;
	struct bio *bio;
	struct bio *biotail;
};

struct task_struct {
	int tgid;
	char comm[16];
};

struct super_block {
	__u32 s_dev;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
};

struct vfsmount;
struct dentry;

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	unsigned int f_flags;
	struct path f_path;
	struct inode *f_inode;
};

#pragma clang attribute pop

/* Bit numbers differ between kernels: read with bpf_core_enum_value(). */
enum req_flag_bits {
	__REQ_SYNC = 11,
	__REQ_META = 12,
	__REQ_FUA = 17,
	__REQ_PREFLUSH = 18,
	__REQ_RAHEAD = 19,
	__REQ_BACKGROUND = 20,
};

/* ZONE_APPEND has had several numbers, which other ops had before or have had
 * since; the enumeration itself had another name before Linux 6.0. */
enum req_op {
	REQ_OP_ZONE_APPEND = 7,
};

enum req_opf {
	REQ_OP_ZONE_APPEND___opf = 13,
};

/* These have been the same since Linux 4.10. */
#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0
#define REQ_OP_WRITE 1
#define REQ_OP_FLUSH 2
#define REQ_OP_DISCARD 3
#define REQ_OP_SECURE_ERASE 5
#define REQ_OP_WRITE_ZEROES 9

#endif
