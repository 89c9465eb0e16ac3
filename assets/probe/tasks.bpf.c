// SPDX-License-Identifier: MIT OR GPL-2.0
// Threads in D that wait for a lock inside the kernel, and the thread that holds it: one row a waiting thread, from the
// owner fields of the locks. For which lock it waits is in task_struct, or noted by the programs of lock_contention.h.
// src/kernel/probe.rs loads the object; build.sh makes it again, and .ci/run compares the bytes.
//
// The types have only the members that are read: the loader finds where they lie in the running kernel (CO-RE). What a kernel
// lacks is left out.
#include <linux/types.h>
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define RELOCATED __attribute__((preserve_access_index))

typedef struct { long counter; } RELOCATED atomic_long_t;
struct mutex { atomic_long_t owner; } RELOCATED;
struct rw_semaphore { atomic_long_t count, owner; } RELOCATED;
struct semaphore { unsigned long last_holder; } RELOCATED;
struct mm_struct { struct rw_semaphore mmap_lock; } RELOCATED;
struct sched_info { unsigned long pcount; } RELOCATED;
struct task_struct {
	unsigned int __state, flags;
	int pid, tgid;
	struct sched_info sched_info;
	struct mm_struct *mm;
	// The lock, with one of the kinds below in the low two bits (include/linux/hung_task.h; since 6.16). Only in plain D:
	// not of a wait that a fatal signal ends.
	unsigned long blocker;
} RELOCATED;
// Linux 6.15
struct task_struct___of_6_15 { struct mutex *blocker_mutex; } RELOCATED;
// Before 5.14
struct task_struct___before_5_14 { volatile long state; } RELOCATED;
struct seq_file;
struct bpf_iter_meta { struct seq_file *seq; } RELOCATED;
struct bpf_iter__task { struct bpf_iter_meta *meta; struct task_struct *task; } RELOCATED;

enum {
	TASK_UNINTERRUPTIBLE = 0x2,
	TASK_WAKEKILL = 0x100,
	PF_KTHREAD = 0x200000,
	MUTEX_FLAGS = 0x7,
	// Three flags up to 5.10, two since then; task_struct is aligned to more.
	RWSEM_FLAGS = 0x7,
	RWSEM_READER_OWNED = 0x1,
	RWSEM_WRITER_LOCKED = 0x1,
	RWSEM_READER_BIAS = 0x100,
};
// `LockKind` in probe.rs: the first four are those of hung_task.h.
enum { MUTEX, SEMAPHORE, RWSEM_WAITS_TO_READ, RWSEM_WAITS_TO_WRITE, KIND_MASK = 0x3 };
enum { OWNER_IS_READER = 0x1, OWNER_IS_KERNEL_THREAD = 0x2, IS_MMAP_LOCK = 0x4, IS_KILLABLE = 0x8, IS_BY_CONTENTION = 0x10 };

// What the kernel has of the fields above: `LockFields` in probe/lock_fields.rs.
enum {
	HAS_BLOCKER_MUTEX = 0x1,
	HAS_BLOCKER = 0x2,
	HAS_MUTEX_OWNER = 0x4,
	HAS_LAST_HOLDER = 0x8,
	HAS_RWSEM_OWNER = 0x10,
	HAS_MMAP_LOCK = 0x20,
};

#include "lock_contention.h"

// Set by tests: task_struct is taken for that of a kernel before 6.15.
const volatile __u32 ignores_blocker = 0;

// `LockRow` in probe.rs is read from it.
struct row { __u64 lock, owner_timeslices; __u32 tgid, tid, owner_tgid, owner_tid, owner_state, kind, flags, padding; };

static __always_inline long state_of(struct task_struct *task)
{
	struct task_struct___before_5_14 *old = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return bpf_core_field_exists(old->state) ? BPF_CORE_READ(old, state) : 0;
}

// The task that holds a rw-semaphore: its writer, or one of its readers; NULL while it has no holder.
static __always_inline struct task_struct *rwsem_owner(struct rw_semaphore *lock, struct row *row)
{
	long count = BPF_CORE_READ(lock, count.counter);
	unsigned long owner = BPF_CORE_READ(lock, owner.counter);

	if (owner & RWSEM_READER_OWNED) {
		// The field keeps the last reader when none is left.
		if (count < RWSEM_READER_BIAS)
			return 0;
		row->flags |= OWNER_IS_READER;
	} else if (!(count & RWSEM_WRITER_LOCKED)) {
		return 0;
	}
	return (struct task_struct *)(owner & ~RWSEM_FLAGS);
}

// The lock, with its kind, for which a task waits, as the task says; 0: it does not say it.
static __always_inline unsigned long blocker_of(struct task_struct *task)
{
	struct task_struct___of_6_15 *of_6_15 = (void *)task;

	if (ignores_blocker)
		return 0;
	if (bpf_core_field_exists(task->blocker))
		return BPF_CORE_READ(task, blocker);
	// Its kind is MUTEX, which is 0.
	return bpf_core_field_exists(of_6_15->blocker_mutex) ? (unsigned long)BPF_CORE_READ(of_6_15, blocker_mutex) : 0;
}

// Whether a reader that has left the lock, which still names it, waits for it once more.
static __always_inline bool waits_for(struct task_struct *reader, __u64 lock)
{
	unsigned long awaited = blocker_of(reader);

	if (!awaited)
		awaited = contended_lock(reader, BPF_CORE_READ(reader, pid));
	return (awaited & ~(unsigned long)KIND_MASK) == lock;
}

static __always_inline struct task_struct *lock_owner(struct task_struct *task, long state, struct row *row)
{
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	unsigned long own_mmap_lock = 0, blocker = blocker_of(task);
	struct task_struct *owner;
	struct rw_semaphore *lock;

	if (mm && bpf_core_field_exists(mm->mmap_lock))
		own_mmap_lock = (unsigned long)__builtin_preserve_access_index(&mm->mmap_lock);
	if (!blocker) {
		blocker = contended_lock(task, BPF_CORE_READ(task, pid));
		if (blocker)
			row->flags |= IS_BY_CONTENTION;
	}
	if (blocker) {
		row->kind = blocker & KIND_MASK;
		row->lock = blocker & ~(unsigned long)KIND_MASK;
		if (row->kind == SEMAPHORE) {
			struct semaphore *lock = (void *)row->lock;

			return bpf_core_field_exists(lock->last_holder) ? (void *)BPF_CORE_READ(lock, last_holder) : 0;
		}
		if (row->kind == MUTEX) {
			struct mutex *lock = (void *)row->lock;

			return bpf_core_field_exists(lock->owner) ? (void *)(BPF_CORE_READ(lock, owner.counter) & ~MUTEX_FLAGS) : 0;
		}
		if (row->flags & IS_BY_CONTENTION && row->lock == own_mmap_lock)
			row->flags |= IS_MMAP_LOCK;
	} else {
		// A wait for mmap_lock; whether it is one, the wait channel says. Where waits set blocker only one that a fatal signal ends has
		// none (rw-semaphores set it since 6.17).
		if (!own_mmap_lock || (bpf_core_field_exists(task->blocker) && !ignores_blocker && !(state & TASK_WAKEKILL)))
			return 0;
		row->kind = RWSEM_WAITS_TO_WRITE;
		row->lock = own_mmap_lock;
		row->flags |= IS_MMAP_LOCK | (state & TASK_WAKEKILL ? IS_KILLABLE : 0);
	}
	lock = (void *)row->lock;
	owner = bpf_core_field_exists(lock->owner) ? rwsem_owner(lock, row) : 0;
	return owner && row->flags & OWNER_IS_READER && waits_for(owner, row->lock) ? 0 : owner;
}

static __always_inline unsigned int known_fields(void)
{
	unsigned int fields = 0;

	if (bpf_core_field_exists(struct task_struct___of_6_15, blocker_mutex))
		fields |= HAS_BLOCKER_MUTEX;
	if (bpf_core_field_exists(struct task_struct, blocker))
		fields |= HAS_BLOCKER;
	if (bpf_core_field_exists(struct mutex, owner))
		fields |= HAS_MUTEX_OWNER;
	if (bpf_core_field_exists(struct semaphore, last_holder))
		fields |= HAS_LAST_HOLDER;
	if (bpf_core_field_exists(struct rw_semaphore, owner))
		fields |= HAS_RWSEM_OWNER;
	if (bpf_core_field_exists(struct mm_struct, mmap_lock))
		fields |= HAS_MMAP_LOCK;
	return fields;
}

SEC("iter/task")
int tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task, *owner;
	struct row row = {};
	long state;

	if (!task) {
		// The end: a row without a thread.
		row.flags = known_fields();
		bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
		return 0;
	}
	state = state_of(task);
	if (!(state & TASK_UNINTERRUPTIBLE))
		return 0;
	owner = lock_owner(task, state, &row);
	// Its own lock: it has just got it.
	if (!owner || owner == task)
		return 0;
	row.tgid = BPF_CORE_READ(task, tgid);
	row.tid = BPF_CORE_READ(task, pid);
	row.owner_tgid = BPF_CORE_READ(owner, tgid);
	row.owner_tid = BPF_CORE_READ(owner, pid);
	row.owner_state = state_of(owner);
	if (BPF_CORE_READ(owner, flags) & PF_KTHREAD)
		row.flags |= OWNER_IS_KERNEL_THREAD;
	if (bpf_core_field_exists(owner->sched_info.pcount))
		row.owner_timeslices = BPF_CORE_READ(owner, sched_info.pcount);
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
