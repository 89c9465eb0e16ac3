// SPDX-License-Identifier: MIT OR GPL-2.0
// Operations of mounted file systems, counted where programs ask for them: system calls, asynchronous requests, and pages of mapped
// files that a fault reads or a store makes dirty. Tracepoints alone, so that nothing depends on the names of kernel functions.
// src/kernel/probe/file_systems.rs loads the object and reads the maps; build.sh makes it again, and .ci/run compares the bytes.
//
// The name of a program is that of its tracepoint; what a kernel lacks is left out. The types have only the members that are read:
// the loader finds where they lie in the running kernel (CO-RE).
#include <linux/types.h>
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define RELOCATED __attribute__((preserve_access_index))

struct super_block { __u32 s_dev; } RELOCATED;
struct inode { unsigned short i_mode; struct super_block *i_sb; } RELOCATED;
struct file { struct inode *f_inode; unsigned int f_mode; long long f_pos; } RELOCATED;
struct fdtable { unsigned int max_fds; struct file **fd; } RELOCATED;
struct files_struct { struct fdtable *fdt; } RELOCATED;
struct dentry { struct dentry *d_parent; struct super_block *d_sb; } RELOCATED;
struct path { struct dentry *dentry; } RELOCATED;
struct fs_struct { struct path root, pwd; } RELOCATED;
struct thread_info { __u32 status; } RELOCATED;
struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	unsigned long min_flt, maj_flt;
	struct files_struct *files;
	struct fs_struct *fs;
} RELOCATED;
// x86-64
struct pt_regs { unsigned long di, si, dx, r10, orig_ax; } RELOCATED;
struct pt_regs___arm64 { __u64 regs[31]; int syscallno; } RELOCATED;
struct address_space { struct inode *host; } RELOCATED;
struct folio {
	unsigned long flags;
	struct address_space *mapping;
	unsigned int _nr_pages;
} RELOCATED;
// Until 6.15
struct folio___6_15 { unsigned int _folio_nr_pages; } RELOCATED;
// Since 6.18
struct folio___6_18 { struct { unsigned long f; } flags; } RELOCATED;
enum pageflags { PG_head = 6 };
struct io_cqe { int res; int fd; } RELOCATED;
struct io_ring_ctx;
struct io_kiocb { struct file *file; __u8 opcode; struct io_cqe cqe; struct io_ring_ctx *ctx; } RELOCATED;
struct kiocb { long long ki_pos; } RELOCATED;
struct io_rw { __u32 len; } RELOCATED;

enum {
	S_IFMT = 0170000,
	S_IFREG = 0100000,
	FMODE_CREATED = 1 << 20,
	PF_KTHREAD = 0x200000,
	TS_COMPAT = 2,
	AT_FDCWD = -100,
	// The most that one read or write transfers: MAX_RW_COUNT, with pages of 4 KiB
	MAX_REQUEST_BYTES = 0x7ffff000,
	IORING_OP_READV = 1,
	IORING_OP_WRITEV = 2,
	IORING_OP_READ_FIXED = 4,
	IORING_OP_WRITE_FIXED = 5,
	IORING_OP_READ = 22,
	IORING_OP_WRITE = 23,
};
// `AccessPattern`, `Direction` and `OtherOperation` in src/sample/file_systems.rs
enum access_pattern { SEQUENTIAL, RANDOM, PAGE };
enum direction { READ, WRITE, DIRECTIONS };
enum other { ACCESS, READDIR, ATTRIBUTES, NAMES, OTHER };
// `ArgumentLayout` in src/kernel/probe/file_systems/system_calls.rs: what the arguments of a system call are
enum argument_layout {
	NOT_COUNTED,
	// fd; fd, buffer, length, position
	READS, WRITES, READS_AT, WRITES_AT,
	// fd out, fd in, &position; fd in, &position, fd out, &position
	SENDS, COPIES,
	SUBMITS, GETS_EVENTS,
	OPENS,
	// fd; path; directory's fd, path; name, path; name, directory's fd, path
	OF_FD, OF_PATH, AT_PATH, NAME_OF_PATH, NAME_AT_PATH,
};
enum { OTHER_BITS = 3 };
// `TABLE_PLACES` and `PATH_BYTES` in file_systems.rs, `MAX_PROBES` in slot_table.rs
enum { TABLE_PLACES = 1024, MAX_PROBES = 8, PATH_BYTES = 128, SYSTEM_CALLS = 512, MAX_EVENTS = 128 };

struct flow { __u64 operations, bytes, ns; };
// One file system, on the CPUs of one shard: by pattern and direction, and by `enum other`. Eight of each, so that three bits are an index.
struct counts { struct flow flows[8]; __u64 others[8]; };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	// Shards × slots: set by the loader.
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} counts SEC(".maps");

// The file systems that are counted: filled in by the monitor.
struct place { __u32 device, slot; };
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TABLE_PLACES);
	__type(key, __u32);
	__type(value, struct place);
} places SEC(".maps");

// Devices by mount point, with a `/` at its end: filled in by the monitor.
struct mount_point { __u32 bits; char path[PATH_BYTES]; };
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, TABLE_PLACES);
	__type(key, struct mount_point);
	__type(value, __u32);
} mount_points SEC(".maps");

// The file that a system call reads, and the one that it writes: 0 where there is none that is counted. Without `has_begin`, the call
// reads or writes at the file's position.
struct side { __u64 file, inode, begin; __u32 slot; bool has_begin; };
struct call { __u64 start_ns; struct side sides[DIRECTIONS]; };
// Of a thread: the call that it is in, if that has a start, and the number of the last fault that read pages.
struct thread { struct call call; __u64 last_fault; };
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

// Asynchronous requests: of io_uring by their address in the kernel; of io_submit by their address in the process
struct request_key { __u64 address, process; };
struct request { __u64 start_ns; __u32 slot; __u8 direction, pattern; };
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct request_key);
	__type(value, struct request);
} requests SEC(".maps");

// Where the last read or write of an open file ended.
struct position { __u64 inode, end; };
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct position);
} positions SEC(".maps");

// Set by the loader. Shards are a power of two; 0 is any process.
// Device of the monitor's root directory, 0 if it is not known, and whether that directory is the root of its file system
const volatile __u32 root_device = 0, root_is_whole = 0;
const volatile __u32 shards = 1, slots = 1, is_shared = 0, page_bytes = 4096, only_process = 0, only_one_user = 0, only_user = 0;
// Layout and, in the low bits, `enum other`, by the number of the system call
const volatile __u8 argument_layouts[SYSTEM_CALLS] = {};

static __always_inline void add(__u64 *counter, __u64 amount)
{
	if (is_shared)
		__sync_fetch_and_add(counter, amount);
	else
		*counter += amount;
}

static __always_inline struct counts *counts_of(__u32 slot)
{
	__u32 at = (bpf_get_smp_processor_id() & (shards - 1)) * slots + slot;

	return bpf_map_lookup_elem(&counts, &at);
}

// The compiler knows that it is less; the verifier does not.
#define BELOW_EIGHT(at) asm volatile("%[index] &= 7" : [index] "+r"(at))

static __noinline int count_flow(__u32 slot, __u32 pattern, __u32 direction, __u64 bytes, __u64 ns)
{
	struct counts *all = counts_of(slot);
	__u32 at = pattern * DIRECTIONS + direction;
	struct flow *flow;

	if (!all)
		return 0;
	BELOW_EIGHT(at);
	flow = &all->flows[at];
	add(&flow->operations, 1);
	add(&flow->bytes, bytes);
	add(&flow->ns, ns);
	return 0;
}

static __always_inline bool is_wanted(void)
{
	if (only_process && bpf_get_current_pid_tgid() >> 32 != only_process)
		return false;
	return !only_one_user || (__u32)bpf_get_current_uid_gid() == only_user;
}

// The slot of a file system; -1 if it is not counted.
static __noinline int slot_of(__u32 device)
{
	__u32 first = (device >> 20) * 31 + device;

	if (!device)
		return -1;
#pragma clang loop unroll(disable)
	for (int probe = 0; probe < MAX_PROBES; probe++) {
		__u32 at = (first + probe) & (TABLE_PLACES - 1);
		struct place *place = bpf_map_lookup_elem(&places, &at);

		if (place && place->device == device && place->slot < slots)
			return place->slot;
	}
	return -1;
}

static __noinline int count_other(__u32 device, __u32 other)
{
	int slot = slot_of(device);
	struct counts *all = slot < 0 ? 0 : counts_of(slot);

	if (!all)
		return 0;
	BELOW_EIGHT(other);
	add(&all->others[other], 1);
	return 0;
}

// The open file of this process with that number; 0 if there is none.
static __noinline __u64 file_of(__u32 fd)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fdtable *table = task->files->fdt;
	__u64 file = 0;

	if (fd < table->max_fds)
		bpf_probe_read_kernel(&file, sizeof(file), table->fd + fd);
	return file;
}

static __always_inline __u32 device_of(__u64 file)
{
	__u32 device = 0;

	BPF_CORE_READ_INTO(&device, (struct file *)file, f_inode, i_sb, s_dev);
	return device;
}

// Whether it is a regular file of a file system that is counted.
static __noinline bool find_side(__u64 file, struct side *side)
{
	struct inode *inode = BPF_CORE_READ((struct file *)file, f_inode);
	int slot;

	if (!file || (BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFREG)
		return false;
	slot = slot_of(BPF_CORE_READ(inode, i_sb, s_dev));
	if (slot < 0)
		return false;
	side->file = file;
	side->inode = (__u64)inode;
	side->slot = slot;
	return true;
}

// A read or write is sequential if it begins where the last one on this open file ended, or at 0 if there was none.
static __noinline __u32 pattern_of(__u64 file, __u64 inode, __u64 begin, __u64 end)
{
	struct position *last = bpf_map_lookup_elem(&positions, &file);
	struct position new = { inode, end };
	bool is_sequential = !begin;

	if (last && last->inode == inode) {
		is_sequential = last->end == begin;
		last->end = end;
	} else {
		bpf_map_update_elem(&positions, &file, &new, BPF_ANY);
	}
	return is_sequential ? SEQUENTIAL : RANDOM;
}

// System calls

static __always_inline unsigned long argument(struct pt_regs *registers, int number)
{
	struct pt_regs___arm64 *arm = (void *)registers;

	if (bpf_core_field_exists(registers->di))
		return number == 0 ? registers->di : number == 1 ? registers->si : number == 2 ? registers->dx : registers->r10;
	return arm->regs[number];
}

// Of a program with 64 bits; -1 if the thread is not in a system call.
static __always_inline long system_call(struct pt_regs *registers)
{
	struct pt_regs___arm64 *arm = (void *)registers;

	if (bpf_core_field_exists(registers->orig_ax))
		return registers->orig_ax;
	return bpf_core_field_exists(arm->syscallno) ? arm->syscallno : -1;
}

static __always_inline bool is_compat(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return bpf_core_field_exists(task->thread_info.status) && task->thread_info.status & TS_COMPAT;
}

// Without a pointer to one, the position is the file's.
static __always_inline void read_position(struct side *side, unsigned long pointer)
{
	side->has_begin = pointer && !bpf_probe_read_user(&side->begin, sizeof(side->begin), (void *)pointer);
}

static __always_inline int begin_call(struct pt_regs *registers, __u32 layout)
{
	struct call call = {};
	struct thread *thread;
	bool is_write = layout == WRITES || layout == WRITES_AT, is_counted;

	if (layout == SENDS || layout == COPIES) {
		// The file that is read has the second number in sendfile, and the first one otherwise.
		is_counted = find_side(file_of(argument(registers, layout == SENDS)), &call.sides[READ]);
		is_counted |= find_side(file_of(argument(registers, layout == SENDS ? 0 : 2)), &call.sides[WRITE]);
		read_position(&call.sides[READ], argument(registers, layout == SENDS ? 2 : 1));
		if (layout == COPIES)
			read_position(&call.sides[WRITE], argument(registers, 3));
	} else {
		struct side side = {};

		is_counted = find_side(file_of(argument(registers, 0)), &side);
		side.begin = argument(registers, 3);
		side.has_begin = (layout == READS_AT || layout == WRITES_AT) && (long)side.begin >= 0;
		if (is_write)
			call.sides[WRITE] = side;
		else
			call.sides[READ] = side;
	}
	if (!is_counted)
		return 0;
	thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread)
		return 0;
	call.start_ns = bpf_ktime_get_ns();
	thread->call = call;
	return 0;
}

static __noinline int count_side(struct side *side, __u32 direction, long bytes, __u64 ns)
{
	__u64 end = side->begin + bytes;
	struct file *file = (void *)side->file;

	if (!file)
		return 0;
	if (!side->has_begin)
		end = BPF_CORE_READ(file, f_pos);
	return count_flow(side->slot, pattern_of((__u64)file, side->inode, end - bytes, end), direction, bytes, ns);
}

static __always_inline int end_call(long result)
{
	struct thread *thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	struct call *call;
	__u64 ns;

	if (!thread || !thread->call.start_ns)
		return 0;
	call = &thread->call;
	ns = bpf_ktime_get_ns() - call->start_ns;
	call->start_ns = 0;
	if (result < 0)
		return 0;
	count_side(&call->sides[READ], READ, result, ns);
	count_side(&call->sides[WRITE], WRITE, result, ns);
	return 0;
}

// io_submit: `struct iocb` of include/uapi/linux/aio_abi.h
struct iocb {
	__u64 data;
	__u32 key, rw_flags;
	__u16 opcode, priority;
	__u32 fd;
	__u64 buffer, bytes, offset, reserved;
	__u32 flags, result_fd;
};
struct io_event { __u64 data, iocb, result, result2; };
enum { IOCB_CMD_PREAD, IOCB_CMD_PWRITE, IOCB_CMD_PREADV = 7, IOCB_CMD_PWRITEV = 8 };

static __noinline int begin_submitted(__u64 address)
{
	struct request_key key = { address, bpf_get_current_pid_tgid() >> 32 };
	struct request request = {};
	struct side side = {};
	struct iocb submitted;
	bool is_vectored;

	if (bpf_probe_read_user(&submitted, sizeof(submitted), (void *)address))
		return 0;
	is_vectored = submitted.opcode == IOCB_CMD_PREADV || submitted.opcode == IOCB_CMD_PWRITEV;
	if (!is_vectored && submitted.opcode > IOCB_CMD_PWRITE)
		return 0;
	if (is_vectored) {
		// The lengths of the first buffer: most requests have one.
		if (bpf_probe_read_user(&submitted.bytes, sizeof(submitted.bytes), (void *)(submitted.buffer + 8)))
			return 0;
	}
	if (!find_side(file_of(submitted.fd), &side))
		return 0;
	request.slot = side.slot;
	request.direction = submitted.opcode == IOCB_CMD_PWRITE || submitted.opcode == IOCB_CMD_PWRITEV ? WRITE : READ;
	request.pattern = pattern_of(side.file, side.inode, submitted.offset, submitted.offset + submitted.bytes);
	request.start_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&requests, &key, &request, BPF_ANY);
	return 0;
}

static __noinline int end_request(__u64 address, __u64 process, long result)
{
	struct request_key key = { address, process };
	struct request *found = bpf_map_lookup_elem(&requests, &key), request;

	if (!found)
		return 0;
	request = *found;
	bpf_map_delete_elem(&requests, &key);
	if (result >= 0)
		count_flow(request.slot, request.pattern, request.direction, result, bpf_ktime_get_ns() - request.start_ns);
	return 0;
}

static __noinline int begin_all_submitted(unsigned long number, unsigned long list)
{
#pragma clang loop unroll(disable)
	for (int at = 0; at < MAX_EVENTS; at++) {
		__u64 address = 0;

		if (at >= number || bpf_probe_read_user(&address, sizeof(address), (void *)(list + at * 8)))
			break;
		begin_submitted(address);
	}
	return 0;
}

static __noinline int end_all_events(long number, unsigned long list)
{
	__u64 process = bpf_get_current_pid_tgid() >> 32;

#pragma clang loop unroll(disable)
	for (int at = 0; at < MAX_EVENTS; at++) {
		struct io_event event;

		if (at >= number || bpf_probe_read_user(&event, sizeof(event), (void *)(list + at * sizeof(event))))
			break;
		// The process can write what it likes there.
		end_request(event.iocb, process, (long)event.result > MAX_REQUEST_BYTES ? MAX_REQUEST_BYTES : event.result);
	}
	return 0;
}

// Whether absolute paths of this task begin where those of the monitor's mount table do. In a container or a chroot they do not.
static __always_inline bool has_root_of_monitor(struct task_struct *task)
{
	struct dentry *root = task->fs->root.dentry;

	if (!root_device)
		return true;
	return root->d_sb->s_dev == root_device && (!root_is_whole || root->d_parent == root);
}

// Counts a call on a path, which is on the file system of the longest mount point that it begins with; a relative one is on that of
// its directory.
static __noinline int count_path(long directory, unsigned long path, __u32 other)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mount_point key = {};
	__u32 *device, found = 0;
	long length = bpf_probe_read_user_str(key.path, sizeof(key.path), (void *)path);

	// Not in memory. Without a path the call is about the descriptor, as of futimens.
	if (path && length < 0)
		return 0;
	if (length > 1 && key.path[0] == '/') {
		if (!has_root_of_monitor(task))
			return 0;
		// The last mount point may have no slash after it.
		if (length < PATH_BYTES)
			key.path[(length - 1) & (PATH_BYTES - 1)] = '/';
		key.bits = PATH_BYTES * 8;
		device = bpf_map_lookup_elem(&mount_points, &key);
		return device ? count_other(*device, other) : 0;
	}
	if ((int)directory == AT_FDCWD)
		found = task->fs->pwd.dentry->d_sb->s_dev;
	else
		found = device_of(file_of(directory));
	return count_other(found, other);
}

SEC("tp_btf/sys_enter")
int sys_enter(__u64 *ctx)
{
	struct pt_regs *registers = (void *)ctx[0];
	__u64 number = ctx[1];
	__u32 layout, other;

	if (number >= SYSTEM_CALLS)
		return 0;
	layout = argument_layouts[number];
	if (!layout || !is_wanted() || is_compat())
		return 0;
	other = layout & ((1 << OTHER_BITS) - 1);
	layout >>= OTHER_BITS;
	switch (layout) {
	case SUBMITS:
		return begin_all_submitted(argument(registers, 1), argument(registers, 2));
	case OF_FD:
		return count_other(device_of(file_of(argument(registers, 0))), other);
	case OF_PATH:
		return count_path(AT_FDCWD, argument(registers, 0), other);
	case AT_PATH:
		return count_path(argument(registers, 0), argument(registers, 1), other);
	case NAME_OF_PATH:
		return count_path(AT_FDCWD, argument(registers, 1), other);
	case NAME_AT_PATH:
		return count_path(argument(registers, 1), argument(registers, 2), other);
	case GETS_EVENTS:
	case OPENS:
		return 0;
	default:
		return begin_call(registers, layout);
	}
}

SEC("tp_btf/sys_exit")
int sys_exit(__u64 *ctx)
{
	struct pt_regs *registers = (void *)ctx[0];
	long result = ctx[1];
	__u64 number = system_call(registers), file;
	__u32 layout;

	if (number >= SYSTEM_CALLS)
		return 0;
	layout = argument_layouts[number] >> OTHER_BITS;
	if (layout < READS || layout > OPENS || layout == SUBMITS || !is_wanted() || is_compat())
		return 0;
	if (layout == GETS_EVENTS)
		return end_all_events(result, argument(registers, 3));
	if (layout != OPENS)
		return end_call(result);
	if (result < 0)
		return 0;
	file = file_of(result);
	bpf_map_delete_elem(&positions, &file);
	return count_other(device_of(file), BPF_CORE_READ((struct file *)file, f_mode) & FMODE_CREATED ? NAMES : OTHER);
}

// io_uring

static __noinline int begin_uring(struct io_kiocb *request)
{
	struct request_key key = { (__u64)request, 0 };
	struct request new = {};
	__u8 opcode = BPF_CORE_READ(request, opcode);
	__u32 length = 0;
	long long begin = 0;
	// The file is not known yet: its number in the ring stands for it.
	__u64 file = ((__u64)BPF_CORE_READ(request, ctx) << 16) ^ (__u32)BPF_CORE_READ(request, cqe.fd);
	bool is_vectored = opcode == IORING_OP_READV || opcode == IORING_OP_WRITEV;
	bool is_fixed = opcode == IORING_OP_READ_FIXED || opcode == IORING_OP_WRITE_FIXED;
	struct position *last;

	if (!is_vectored && !is_fixed && opcode != IORING_OP_READ && opcode != IORING_OP_WRITE)
		return 0;
	// The request begins with its kiocb.
	bpf_core_read(&begin, sizeof(begin), &((struct kiocb *)request)->ki_pos);
	bpf_core_read(&length, sizeof(length), &((struct io_rw *)request)->len);
	// The length of a vectored one is not known here.
	if (is_vectored)
		length = 0;
	// At the file's position
	if (begin < 0) {
		last = bpf_map_lookup_elem(&positions, &file);
		begin = last ? last->end : 0;
	}
	new.pattern = pattern_of(file, 0, begin, begin + length);
	new.direction = opcode == IORING_OP_WRITEV || opcode == IORING_OP_WRITE_FIXED || opcode == IORING_OP_WRITE ? WRITE : READ;
	new.start_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&requests, &key, &new, BPF_ANY);
	return 0;
}

SEC("tp_btf/io_uring_submit_req")
int io_uring_submit_req(__u64 *ctx) { return is_wanted() ? begin_uring((void *)ctx[0]) : 0; }
// Before 6.4
SEC("tp_btf/io_uring_submit_sqe")
int io_uring_submit_sqe(__u64 *ctx) { return is_wanted() ? begin_uring((void *)ctx[0]) : 0; }

SEC("tp_btf/io_uring_complete")
int io_uring_complete(__u64 *ctx)
{
	struct io_kiocb *done = (void *)ctx[1];
	struct request_key key = { (__u64)done, 0 };
	struct request *request = bpf_map_lookup_elem(&requests, &key);
	struct side side = {};

	if (!request)
		return 0;
	if (find_side((__u64)BPF_CORE_READ(done, file), &side)) {
		request->slot = side.slot;
		return end_request((__u64)done, 0, BPF_CORE_READ(done, cqe.res));
	}
	bpf_map_delete_elem(&requests, &key);
	return 0;
}

// Mapped files

static __always_inline unsigned long flags_of(struct folio *folio)
{
	struct folio___6_18 *new = (void *)folio;
	unsigned long flags = 0;

	if (bpf_core_field_exists(new->flags.f))
		bpf_core_read(&flags, sizeof(flags), &new->flags.f);
	else
		bpf_core_read(&flags, sizeof(flags), &folio->flags);
	return flags;
}

static __always_inline __u64 bytes_of(struct folio *folio)
{
	struct folio___6_15 *old = (void *)folio;
	unsigned int pages = 1;

	if (flags_of(folio) & 1UL << bpf_core_enum_value(enum pageflags, PG_head)) {
		if (bpf_core_field_exists(folio->_nr_pages))
			bpf_core_read(&pages, sizeof(pages), &folio->_nr_pages);
		else if (bpf_core_field_exists(old->_folio_nr_pages))
			bpf_core_read(&pages, sizeof(pages), &old->_folio_nr_pages);
	}
	return (__u64)pages * page_bytes;
}

// Whether this thread is in a fault, or in a read or write of another file, whose buffer is a mapping.
static __always_inline bool is_fault(struct task_struct *task, __u64 inode)
{
	struct pt_regs *registers = (void *)bpf_task_pt_regs(task);
	struct thread *thread;
	struct side *sides;

	if (system_call(registers) < 0)
		return true;
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (!thread || !thread->call.start_ns)
		return false;
	sides = thread->call.sides;
	return sides[READ].inode != inode && sides[WRITE].inode != inode;
}

static __noinline int count_page(struct folio *folio, __u32 direction)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct inode *inode = BPF_CORE_READ(folio, mapping, host);
	struct thread *thread;
	__u64 number;
	struct counts *all;
	int slot;

	if (task->flags & PF_KTHREAD || (BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFREG)
		return 0;
	slot = slot_of(BPF_CORE_READ(inode, i_sb, s_dev));
	if (slot < 0 || !is_wanted() || !is_fault(task, (__u64)inode))
		return 0;
	if (direction == WRITE)
		return count_flow(slot, PAGE, WRITE, bytes_of(folio), 0);
	// A fault reads several pages ahead. The kernel counts it when it has ended.
	number = task->min_flt + task->maj_flt + 1;
	thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread || thread->last_fault != number) {
		if (thread)
			thread->last_fault = number;
		return count_flow(slot, PAGE, READ, bytes_of(folio), 0);
	}
	all = counts_of(slot);
	if (all)
		add(&all->flows[PAGE * DIRECTIONS + READ].bytes, bytes_of(folio));
	return 0;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int mm_filemap_add_to_page_cache(__u64 *ctx) { return count_page((void *)ctx[0], READ); }

// A clean page becomes dirty: since 5.18, and before
SEC("tp_btf/writeback_dirty_folio")
int writeback_dirty_folio(__u64 *ctx) { return count_page((void *)ctx[0], WRITE); }
SEC("tp_btf/writeback_dirty_page")
int writeback_dirty_page(__u64 *ctx) { return count_page((void *)ctx[0], WRITE); }

char LICENSE[] SEC("license") = "Dual MIT/GPL";
