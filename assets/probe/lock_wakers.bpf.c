// SPDX-License-Identifier: MIT OR GPL-2.0
// Of a few futexes, which thread was woken last there by a futex call, and by which thread. No event leaves the kernel.
// src/kernel/probe/lock_wakers.rs loads the object, sets the futexes and reads the counts; build.sh makes it again, and .ci/run compares
// the bytes.
#include "task.h"

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
	__u64 woken_ns;
	// How often the thread that was woken last had got a CPU until then (schedstat), plus 1; 0: not known
	__u64 woken_timeslices;
};

struct table { struct lock locks[LOCKS]; };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct table);
} locks SEC(".maps");

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

static __always_inline __u64 timeslices_plus_one(struct task_struct *task, bool has_btf)
{
	// The loader does not look for the offset of this member where there is no BTF.
	return has_btf && bpf_core_field_exists(task->sched_info.pcount) ? task->sched_info.pcount + 1 : 0;
}

static __always_inline int count_waking(__u64 *ctx, bool has_btf)
{
	struct task_struct *task = (void *)ctx[0], *current;
	__u32 first = 0, word;
	struct table *table = bpf_map_lookup_elem(&locks, &first);
	struct call call, wakers_call;
	struct ids ids, wakers_ids;
	struct lock *lock;

	if (!table)
		return 0;
	read_ids(task, &ids, has_btf);
	if (!is_watched(table, ids.tgid))
		return 0;
	read_call(task, &call, has_btf);
	if (!is_command(&call, WAITING_COMMANDS) || (__u32)call.arguments[2] != CONTENDED || call.arguments[3])
		return 0;
	lock = lock_at(table, ids.tgid, call.arguments[0]);
	current = current_task(has_btf);
	read_current_ids(current, &wakers_ids, has_btf);
	if (!lock || wakers_ids.tgid != ids.tgid)
		return 0;
	read_call(current, &wakers_call, has_btf);
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
	lock->woken = ids.tid;
	lock->woken_ns = bpf_ktime_get_ns();
	lock->woken_timeslices = timeslices_plus_one(task, has_btf);
	lock->waker = wakers_ids.tid;
	if (!lock->first_waker)
		lock->first_waker = wakers_ids.tid;
	__sync_fetch_and_add(&lock->wake_ups, 1);
	return 0;
}

SEC("tp_btf/sched_waking")
int waking(__u64 *ctx) { return count_waking(ctx, true); }

SEC("raw_tp/sched_waking")
int raw_waking(__u64 *ctx) { return count_waking(ctx, false); }

char LICENSE[] SEC("license") = "Dual MIT/GPL";
