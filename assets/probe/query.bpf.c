// SPDX-License-Identifier: MIT OR GPL-2.0
// Queries of one database server: how long they take, on which of the kernel's resources, and which processes preempt their threads.
// A query begins and ends in functions of the server, at uprobes; scheduler tracepoints divide the time in between.
// src/kernel/probe/query.rs loads the object and reads the maps; build.sh makes it again, and .ci/run compares the bytes.
//
// The types have only the members that are read: the loader finds where they lie in the running kernel (CO-RE).
#include <linux/types.h>
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define RELOCATED __attribute__((preserve_access_index))

enum { COMM_BYTES = 16 };
struct task_struct {
	unsigned int __state;
	int pid, tgid;
	unsigned int in_iowait : 1;
	char comm[COMM_BYTES];
	struct task_struct *real_parent, *group_leader;
} RELOCATED;
struct pt_regs;
struct pt_regs___x86 { unsigned long di, dx, ax, orig_ax; } RELOCATED;
struct pt_regs___arm64 { __u64 regs[31]; int syscallno; } RELOCATED;

enum { TASK_UNINTERRUPTIBLE = 0x2, TASK_WAKING = 0x200 };
// Commands of a client that are queries (include/mysql_com.h): 250 is of MariaDB.
enum { COM_QUERY = 3, COM_STMT_EXECUTE = 23, COM_STMT_BULK_EXECUTE = 250 };

#define SUB_BUCKET_SHIFT 5
#include "histogram_buckets.h"
// As in query.rs.
enum { PREEMPTORS = 1024, MAX_PROBES = 8 };
// Of a query: what its thread does
enum { ON_CPU, RUN_QUEUE, STORAGE, LOCKS, OTHER, PARTS };

// All queries, those that the query cache answered, and those whose thread was preempted.
enum { ALL, CACHED, PREEMPTED, CLASSES };
struct class { __u64 buckets[BUCKETS], total_ns; };
struct totals {
	struct class classes[CLASSES];
	// Of all queries
	__u64 ns[PARTS];
	// Preemptions by processes for which there was no place, and queries for which there was no memory
	__u64 by_others, lost;
};

// A process of which a thread took the CPU, by tgid; 0 is the idle thread, which gets it where the limit of a cgroup is reached.
struct preemptor { __u64 key, count; char comm[COMM_BYTES]; };

#define TABLE(name, places, type_of_value) \
	struct { \
		__uint(type, BPF_MAP_TYPE_ARRAY); \
		__uint(map_flags, BPF_F_MMAPABLE); \
		__uint(max_entries, places); \
		__type(key, __u32); \
		__type(value, type_of_value); \
	} name SEC(".maps")

TABLE(totals_map, 1, struct totals);
TABLE(preemptors, PREEMPTORS, struct preemptor);

// The query of a thread.
struct query {
	// 0: none
	__u64 started;
	__u32 part;
	bool was_preempted, was_cached, waits_for_lock;
	// Of its thread: it has reported the end of a query. Parallel workers of PostgreSQL report the beginning alone.
	bool reports_ends;
	// Since when it is in this part; and of one that sleeps when it was woken, or 0
	__u64 since, woken;
	__u64 ns[8];
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct query);
} queries SEC(".maps");

// Set by the loader: the process, whose children are counted too.
const volatile __u32 only_process = 0;
// Bits: the values of PostgreSQL's BackendState at which a query begins, and at which it has ended.
const volatile __u32 begin_states = 0, end_states = 0;
// Which argument of dispatch_command is the command: 0 or 2; any other number: each command is a query.
const volatile __u32 command_argument = 0;

static __always_inline struct totals *totals_of(void)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(&totals_map, &first);
}

static __always_inline void add(__u64 *counter, __u64 by)
{
	__sync_fetch_and_add(counter, by);
}

static __always_inline bool is_counted(struct task_struct *task)
{
	return task->tgid == only_process || task->real_parent->tgid == only_process;
}

static __always_inline struct query *open_query(struct task_struct *task)
{
	struct query *query = bpf_task_storage_get(&queries, task, 0, 0);

	return query && query->started ? query : 0;
}

static __always_inline struct query *begin_query(struct task_struct *task)
{
	struct query *query = bpf_task_storage_get(&queries, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct totals *totals;

	if (!query) {
		totals = totals_of();
		if (totals)
			add(&totals->lost, 1);
		return 0;
	}
	// One that is parsed, bound and executed by messages of their own has begun with the first.
	if (query->started)
		return query;
	__builtin_memset(query->ns, 0, sizeof(query->ns));
	query->part = ON_CPU;
	query->was_preempted = query->was_cached = query->waits_for_lock = false;
	query->since = bpf_ktime_get_ns();
	barrier();
	// From here on, a switch of the thread is of this query.
	query->started = query->since;
	return query;
}

static __always_inline void count(struct class *class, __u32 at, __u64 ns)
{
	add(&class->buckets[at], 1);
	add(&class->total_ns, ns);
}

static __always_inline void end_query(struct task_struct *task)
{
	struct query *query = open_query(task);
	struct totals *totals = totals_of();
	__u64 started, now, ns;
	__u32 at;

	if (!query || !totals)
		return;
	started = query->started;
	*(volatile __u64 *)&query->started = 0;
	barrier();
	now = bpf_ktime_get_ns();
	query->ns[ON_CPU] += now - query->since;
	ns = now - started;
	at = bucket_of(ns);
	// The reader takes them in the opposite order, so that none has more than all.
	count(&totals->classes[ALL], at, ns);
	if (query->was_cached)
		count(&totals->classes[CACHED], at, ns);
	if (query->was_preempted)
		count(&totals->classes[PREEMPTED], at, ns);
#pragma unroll
	for (int part = 0; part < PARTS; part++)
		add(&totals->ns[part], query->ns[part]);
}

// The registers are copied: the verifier takes no address of them that is computed.
static __always_inline __u64 argument(void *registers, __u32 number)
{
	struct pt_regs___x86 *x86 = registers;
	struct pt_regs___arm64 *arm64 = registers;

	if (bpf_core_field_exists(x86->orig_ax))
		return number ? BPF_CORE_READ(x86, dx) : BPF_CORE_READ(x86, di);
	if (bpf_core_field_exists(arm64->syscallno))
		return number ? BPF_CORE_READ(arm64, regs[2]) : BPF_CORE_READ(arm64, regs[0]);
	return 0;
}

// PostgreSQL: pgstat_report_activity(BackendState, const char *)
SEC("uprobe")
int activity(void *registers)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 state = argument(registers, 0);
	struct query *query;

	if (state > 31 || !is_counted(task))
		return 0;
	if (begin_states >> state & 1) {
		begin_query(task);
	} else if (end_states >> state & 1) {
		query = bpf_task_storage_get(&queries, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (query)
			query->reports_ends = true;
		end_query(task);
	}
	return 0;
}

// PostgreSQL: ProcSleep, in which a backend waits for a row, a table or an advisory lock, in epoll. An error leaves it without return:
// then the rest of that query counts as if it had not.
SEC("uprobe")
int lock_wait(void *registers)
{
	struct query *query = open_query(bpf_get_current_task_btf());

	if (query)
		query->waits_for_lock = true;
	return 0;
}

SEC("uretprobe")
int lock_wait_end(void *registers)
{
	struct query *query = open_query(bpf_get_current_task_btf());

	if (query)
		query->waits_for_lock = false;
	return 0;
}

// MySQL and MariaDB: dispatch_command
SEC("uprobe")
int command(void *registers)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 command = COM_QUERY;
	struct query *query;

	if (command_argument == 0)
		command = argument(registers, 0);
	else if (command_argument == 2)
		command = argument(registers, 2);
	if (command != COM_QUERY && command != COM_STMT_EXECUTE && command != COM_STMT_BULK_EXECUTE)
		return 0;
	if (!is_counted(task))
		return 0;
	query = begin_query(task);
	if (query)
		query->reports_ends = true;
	return 0;
}

SEC("uretprobe")
int command_end(void *registers)
{
	end_query(bpf_get_current_task_btf());
	return 0;
}

// MariaDB: Query_cache::send_result_to_client returns 1 if it has answered the query.
SEC("uretprobe")
int cache_answer(void *registers)
{
	struct pt_regs___x86 *x86 = registers;
	struct pt_regs___arm64 *arm64 = registers;
	struct query *query = open_query(bpf_get_current_task_btf());
	int result = 0;

	if (bpf_core_field_exists(x86->orig_ax))
		result = BPF_CORE_READ(x86, ax);
	else if (bpf_core_field_exists(arm64->syscallno))
		result = BPF_CORE_READ(arm64, regs[0]);
	if (query && result > 0)
		query->was_cached = true;
	return 0;
}

struct call { bool is_futex_or_semaphore, is_sync, is_yield; };

static __always_inline struct call call_of(struct task_struct *task)
{
	struct pt_regs *registers = (void *)bpf_task_pt_regs(task);
	struct pt_regs___x86 *x86 = (void *)registers;
	struct pt_regs___arm64 *arm64 = (void *)registers;
	struct call call = {};
	long number;

	if (bpf_core_field_exists(x86->orig_ax)) {
		number = x86->orig_ax;
		// futex, semop, semtimedop, futex_waitv, futex_wait
		call.is_futex_or_semaphore = number == 202 || number == 65 || number == 220 || number == 449 || number == 455;
		// fsync, fdatasync, msync, sync_file_range, syncfs
		call.is_sync = number == 74 || number == 75 || number == 26 || number == 277 || number == 306;
		call.is_yield = number == 24;
	} else if (bpf_core_field_exists(arm64->syscallno)) {
		number = arm64->syscallno;
		call.is_futex_or_semaphore = number == 98 || number == 193 || number == 192 || number == 449 || number == 455;
		call.is_sync = number == 82 || number == 83 || number == 227 || number == 84 || number == 267;
		call.is_yield = number == 124;
	}
	return call;
}

// What a thread that sleeps from now on waits for.
static __always_inline __u32 part_of_sleep(struct query *query, struct task_struct *task, unsigned int state, struct call *call)
{
	if (BPF_CORE_READ_BITFIELD(task, in_iowait))
		return STORAGE;
	if (call->is_futex_or_semaphore || query->waits_for_lock)
		return LOCKS;
	// The commit of a journal, for which fsync waits, has no flag; what else is in D without it waits for a lock inside the kernel.
	if (state & TASK_UNINTERRUPTIBLE)
		return call->is_sync ? STORAGE : LOCKS;
	return OTHER;
}

static __always_inline void count_preemption(struct task_struct *by)
{
	__u64 key = 1ULL << 32 | by->tgid;
	struct totals *totals;

#pragma unroll
	for (int probe = 0; probe < MAX_PROBES; probe++) {
		__u32 place = (by->tgid + probe) & (PREEMPTORS - 1);
		struct preemptor *preemptor = bpf_map_lookup_elem(&preemptors, &place);
		__u64 found;

		if (!preemptor)
			break;
		found = preemptor->key;
		if (!found) {
			found = __sync_val_compare_and_swap(&preemptor->key, 0, key);
			if (!found)
				found = key;
		}
		if (found == key) {
			bpf_probe_read_kernel(preemptor->comm, COMM_BYTES, by->group_leader->comm);
			add(&preemptor->count, 1);
			return;
		}
	}
	totals = totals_of();
	if (totals)
		add(&totals->by_others, 1);
}

static __always_inline void leave_cpu(struct query *query, struct task_struct *task, struct task_struct *next, bool is_forced, __u64 now)
{
	unsigned int state = task->__state;
	struct call call = call_of(task);

	query->ns[ON_CPU] += now - query->since;
	if (is_forced || !state) {
		query->part = RUN_QUEUE;
		if (is_forced || !call.is_yield) {
			query->was_preempted = true;
			// What does not end is no query.
			if (query->reports_ends)
				count_preemption(next);
		}
	} else {
		// One that is being woken already does not sleep.
		query->part = state & TASK_WAKING ? RUN_QUEUE : part_of_sleep(query, task, state, &call);
	}
	query->woken = 0;
	query->since = now;
}

static __always_inline void enter_cpu(struct query *query, __u64 now)
{
	__u64 elapsed = now - query->since, asleep = elapsed;
	__u32 part = query->part & 7;

	if (query->woken > query->since && query->woken < now)
		asleep = query->woken - query->since;
	query->ns[part] += asleep;
	query->ns[RUN_QUEUE] += elapsed - asleep;
	query->part = ON_CPU;
	query->since = now;
}

SEC("tp_btf/sched_switch")
int switched(__u64 *ctx)
{
	struct task_struct *previous = (void *)ctx[1], *next = (void *)ctx[2];
	struct query *leaves = open_query(previous), *enters = open_query(next);
	__u64 now;

	if (!leaves && !enters)
		return 0;
	now = bpf_ktime_get_ns();
	if (leaves)
		leave_cpu(leaves, previous, next, ctx[0] & 1, now);
	if (enters)
		enter_cpu(enters, now);
	return 0;
}

SEC("tp_btf/sched_waking")
int waking(__u64 *ctx)
{
	struct query *query = open_query((void *)ctx[0]);

	if (query && query->part > RUN_QUEUE && !query->woken)
		query->woken = bpf_ktime_get_ns();
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
