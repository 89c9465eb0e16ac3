// SPDX-License-Identifier: MIT OR GPL-2.0
// Of a few futexes, which thread was woken last there by a futex call, and by which thread. No event leaves the kernel.
// src/kernel/probe/lock_wakers.rs loads the object, sets the futexes and reads the counts; build.sh makes it again, and .ci/run compares
// the bytes.
//
// The types have only the members that are read: the loader finds where they lie in the running kernel (CO-RE).
#include <linux/types.h>
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define RELOCATED __attribute__((preserve_access_index))

struct task_struct { int pid, tgid; } RELOCATED;
struct pt_regs;
struct pt_regs___x86 { unsigned long di, si, dx, r10, orig_ax; } RELOCATED;
struct pt_regs___arm64 { __u64 regs[31]; int syscallno; } RELOCATED;

enum { FUTEX_X86 = 202, FUTEX_ARM64 = 98, FUTEX_COMMAND = 0x7f };
// Commands of a thread that waits, and of one that wakes others (include/uapi/linux/futex.h)
enum {
	WAITING_COMMANDS = 1 << 0 | 1 << 9,
	WAKING_COMMANDS = 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 10 | 1 << 12,
};
// The value of a contended mutex
enum { CONTENDED = 2 };

// No tid: it is not known which thread took the mutex.
enum { UNKNOWN = 0xffffffff };
// As in lock_wakers.rs.
enum { LOCKS = 8 };

struct lock {
	// Of the process; 0: this place is free
	__u64 tgid, address;
	// Threads that a futex call woke at the address, which had waited as for a contended mutex, after it was released
	__u64 wake_ups;
	// tid of the thread that was woken last, and of the one that woke it
	__u64 woken, waker;
	// tid of the first thread that woke another one since this was set to 0
	__u64 first_waker;
	// CLOCK_MONOTONIC of the last wake-up
	__u64 woken_ns, padding;
};

struct table { struct lock locks[LOCKS]; };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct table);
} locks SEC(".maps");

struct call { __u64 arguments[4]; bool is_futex; };

static __always_inline void read_call(struct task_struct *task, struct call *call)
{
	struct pt_regs *registers = (void *)bpf_task_pt_regs(task);
	struct pt_regs___x86 *x86 = (void *)registers;
	struct pt_regs___arm64 *arm64 = (void *)registers;

	call->is_futex = false;
	if (bpf_core_field_exists(x86->orig_ax)) {
		call->arguments[0] = x86->di;
		call->arguments[1] = x86->si;
		call->arguments[2] = x86->dx;
		call->arguments[3] = x86->r10;
		call->is_futex = x86->orig_ax == FUTEX_X86;
	} else if (bpf_core_field_exists(arm64->syscallno)) {
		call->arguments[0] = arm64->regs[0];
		call->arguments[1] = arm64->regs[1];
		call->arguments[2] = arm64->regs[2];
		call->arguments[3] = arm64->regs[3];
		call->is_futex = arm64->syscallno == FUTEX_ARM64;
	}
}

static __always_inline bool is_command(struct call *call, __u32 commands)
{
	return call->is_futex && commands >> (call->arguments[1] & FUTEX_COMMAND & 31) & 1;
}

static __always_inline struct lock *lock_at(struct table *table, __u64 tgid, __u64 address)
{
#pragma unroll
	for (int place = 0; place < LOCKS; place++) {
		if (table->locks[place].tgid == tgid && table->locks[place].address == address)
			return &table->locks[place];
	}
	return 0;
}

static __always_inline bool is_watched(struct table *table, __u64 tgid)
{
#pragma unroll
	for (int place = 0; place < LOCKS; place++) {
		if (table->locks[place].tgid == tgid)
			return true;
	}
	return false;
}

SEC("tp_btf/sched_waking")
int waking(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0], *current;
	__u32 first = 0, tgid = task->tgid;
	struct table *table = bpf_map_lookup_elem(&locks, &first);
	struct call call, wakers_call;
	struct lock *lock;
	__u32 word;

	if (!table || !is_watched(table, tgid))
		return 0;
	read_call(task, &call);
	if (!is_command(&call, WAITING_COMMANDS) || (__u32)call.arguments[2] != CONTENDED || call.arguments[3])
		return 0;
	lock = lock_at(table, tgid, call.arguments[0]);
	current = bpf_get_current_task_btf();
	if (!lock || current->tgid != tgid)
		return 0;
	read_call(current, &wakers_call);
	// Otherwise it is a signal, or an interrupt.
	if (!is_command(&wakers_call, WAKING_COMMANDS) || wakers_call.arguments[0] != call.arguments[0])
		return 0;
	// A mutex is released before a thread is woken there: another thread has taken it already, or the threads wait for something else.
	if (!bpf_probe_read_user(&word, sizeof word, (void *)call.arguments[0]) && word == CONTENDED) {
		lock->woken = lock->waker = 0;
		if (!lock->first_waker)
			lock->first_waker = UNKNOWN;
		return 0;
	}
	lock->woken = task->pid;
	lock->woken_ns = bpf_ktime_get_ns();
	lock->waker = current->pid;
	if (!lock->first_waker)
		lock->first_waker = current->pid;
	__sync_fetch_and_add(&lock->wake_ups, 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
