/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A program that reads blocks of a file and counts those that fail with EBUSY. It knows
 * nothing of trimtab. Each block of 4 KiB holds its number in each of its words.
 *
 *     reader METHOD FILE READS
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK 4096
#define BLOCKS 256

static long good, refused, wrong, failed;
static volatile sig_atomic_t over;

static void end(int signal)
{
	(void)signal;
	over = 1;
}

static void die(const char *what)
{
	perror(what);
	exit(9);
}

/* Judges a read of a block: its result, or minus an errno. */
static void judge(long result, const uint64_t *block, uint64_t number)
{
	if (result == -EBUSY) {
		refused++;
		return;
	}
	if (result != BLOCK) {
		failed++;
		return;
	}
	for (int i = 0; i < BLOCK / 8; i++)
		if (block[i] != number) {
			wrong++;
			return;
		}
	good++;
}

/* A ring for one read at a time. */
static struct {
	int fd;
	unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
} ring;

static void make_ring(void)
{
	struct io_uring_params p = {0};
	char *sq, *cq;

	ring.fd = syscall(__NR_io_uring_setup, 4, &p);
	if (ring.fd < 0)
		die("io_uring_setup");
	sq = mmap(0, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd,
		  IORING_OFF_SQ_RING);
	cq = mmap(0, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe),
		  PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_CQ_RING);
	ring.sqes = mmap(0, p.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
			 MAP_SHARED, ring.fd, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || ring.sqes == MAP_FAILED)
		die("mmap of the ring");
	ring.sq_tail = (unsigned *)(sq + p.sq_off.tail);
	ring.sq_mask = (unsigned *)(sq + p.sq_off.ring_mask);
	ring.sq_array = (unsigned *)(sq + p.sq_off.array);
	ring.cq_head = (unsigned *)(cq + p.cq_off.head);
	ring.cq_tail = (unsigned *)(cq + p.cq_off.tail);
	ring.cq_mask = (unsigned *)(cq + p.cq_off.ring_mask);
	ring.cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
}

static long read_by_ring(int fd, void *block, uint64_t offset)
{
	unsigned tail = *ring.sq_tail, i = tail & *ring.sq_mask, head;
	struct io_uring_sqe *sqe = &ring.sqes[i];
	long result;

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_READ;
	sqe->fd = fd;
	sqe->addr = (uintptr_t)block;
	sqe->len = BLOCK;
	sqe->off = offset;
	ring.sq_array[i] = i;
	__atomic_store_n(ring.sq_tail, tail + 1, __ATOMIC_RELEASE);
	if (syscall(__NR_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) < 0)
		die("io_uring_enter");
	head = *ring.cq_head;
	if (__atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE) == head)
		die("no completion");
	result = ring.cqes[head & *ring.cq_mask].res;
	__atomic_store_n(ring.cq_head, head + 1, __ATOMIC_RELEASE);
	return result;
}

static long errors(long result)
{
	return result < 0 ? -errno : result;
}

static long read_once(const char *method, int fd, const char *path, void *block, uint64_t offset)
{
	struct iovec vector = {block, BLOCK};
	long result;

	if (!strcmp(method, "preadv2"))
		return errors(preadv2(fd, &vector, 1, offset, 0));
	if (!strcmp(method, "io_uring"))
		return read_by_ring(fd, block, offset);
	if (!strcmp(method, "reopen")) {
		fd = open(path, O_RDONLY | O_DIRECT);
		if (fd < 0)
			die(path);
		result = errors(pread(fd, block, BLOCK, offset));
		close(fd);
		return result;
	}
	return errors(pread(fd, block, BLOCK, offset));
}

/* Makes a file of its own after it was started. */
static void make(const char *path, uint64_t *block)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (fd < 0)
		die(path);
	for (uint64_t number = 0; number < BLOCKS; number++) {
		for (int i = 0; i < BLOCK / 8; i++)
			block[i] = number;
		if (write(fd, block, BLOCK) != BLOCK)
			die("write");
	}
	if (fsync(fd) || close(fd))
		die("fsync");
}

int main(int argc, char **argv)
{
	const char *method = argv[1], *path = argv[2];
	long reads = argc > 3 ? atol(argv[3]) : 0;
	int is_buffered, fd, flags;
	uint64_t *block, *map = 0;

	if (argc < 4 || posix_memalign((void **)&block, BLOCK, BLOCK))
		return 9;
	signal(SIGTERM, end);
	is_buffered = !strcmp(method, "buffered") || !strcmp(method, "map") || !strcmp(method, "set");
	if (!strcmp(method, "later"))
		make(path, block);
	flags = !strcmp(method, "write") ? O_RDWR : O_RDONLY;
	fd = open(path, flags | (is_buffered ? 0 : O_DIRECT));
	if (fd < 0)
		die(path);
	if (!strcmp(method, "io_uring"))
		make_ring();
	if (!strcmp(method, "set") && fcntl(fd, F_SETFL, O_DIRECT))
		die("F_SETFL");
	if (!strcmp(method, "dup")) {
		int copy = dup(fd);
		close(fd);
		fd = copy;
	}
	if (!strcmp(method, "map")) {
		map = mmap(0, BLOCKS * BLOCK, PROT_READ, MAP_SHARED, fd, 0);
		close(fd);
		if (map == MAP_FAILED)
			die("mmap");
	}
	if (!strcmp(method, "fork")) {
		pid_t child = fork();
		int status;
		if (child > 0)
			return waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : 9;
	}
	for (long i = 0; (i < reads || !reads) && !over; i++) {
		uint64_t number = (i * 7919) % BLOCKS;
		if (map) {
			judge(BLOCK, map + number * (BLOCK / 8), number);
		} else if (!strcmp(method, "write")) {
			for (int w = 0; w < BLOCK / 8; w++)
				block[w] = number;
			judge(errors(pwrite(fd, block, BLOCK, number * BLOCK)), block, number);
		} else {
			memset(block, 0xff, BLOCK);
			judge(read_once(method, fd, path, block, number * BLOCK), block, number);
		}
		/* Slowly, so that it can be watched. */
		if (!reads || !strcmp(method, "later"))
			usleep(1000);
	}
	printf("%ld good, %ld refused, %ld wrong, %ld failed\n", good, refused, wrong, failed);
	return wrong || failed ? 8 : 0;
}
