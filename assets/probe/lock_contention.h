// For which mutex or rw-semaphore each thread waits, by the tracepoints lock:contention_begin and lock:contention_end (since Linux
// 5.19), which src/kernel/probe/lock_contention.rs attaches while threads wait for such locks.

// Flags of contention_begin (include/trace/events/lock.h)
enum { LCB_F_SPIN = 0x1, LCB_F_READ = 0x2, LCB_F_WRITE = 0x4, LCB_F_RT = 0x8, LCB_F_PERCPU = 0x10, LCB_F_MUTEX = 0x20 };
// As in lock_contention.rs. A power of two: the place of a thread is its id modulo that. Of two threads with one place the last one counts.
enum { WAIT_PLACES = 4096 };
// The same; CPUs beyond share them.
enum { COUNTS = 64 };

// An array that only the waiting threads write: the lock of a hash map would itself be contended at these tracepoints, in the midst of
// the contention that they report.
// `lock` has one of the kinds in its low two bits, as `blocker` of task_struct. `check` is task ^ lock: in a place that two threads write
// at once it does not match.
struct wait { __u64 task, lock, check; };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, WAIT_PLACES);
	__type(key, __u32);
	__type(value, struct wait);
} waits SEC(".maps");

// Calls of `contention_begin`; a cache line for each CPU
struct count { __u64 begun, padding[7]; };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, COUNTS);
	__type(key, __u32);
	__type(value, struct count);
} counts SEC(".maps");

static __always_inline struct wait *wait_of(__u32 tid)
{
	__u32 place = tid & (WAIT_PLACES - 1);

	return bpf_map_lookup_elem(&waits, &place);
}

// The lock, with its kind, for which this thread waits; 0: none is known.
static __always_inline unsigned long contended_lock(struct task_struct *task, __u32 tid)
{
	struct wait *wait = wait_of(tid), copy;

	if (!wait)
		return 0;
	copy = *(volatile struct wait *)wait;
	return copy.task == (__u64)task && (copy.task ^ copy.lock) == copy.check ? copy.lock : 0;
}

SEC("tp_btf/contention_begin")
int contention_begin(__u64 *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id() & (COUNTS - 1), flags = ctx[1], kind;
	struct count *count = bpf_map_lookup_elem(&counts, &cpu);
	struct wait *wait;

	if (count)
		__sync_fetch_and_add(&count->begun, 1);
	// A mutex begins twice, first with LCB_F_SPIN. Semaphores have no flags: before 6.16 they name no holder.
	if (flags & (LCB_F_SPIN | LCB_F_RT | LCB_F_PERCPU))
		return 0;
	if (flags & LCB_F_MUTEX)
		kind = MUTEX;
	else if (flags & LCB_F_READ)
		kind = RWSEM_WAITS_TO_READ;
	else if (flags & LCB_F_WRITE)
		kind = RWSEM_WAITS_TO_WRITE;
	else
		return 0;
	wait = wait_of(bpf_get_current_pid_tgid());
	if (!wait)
		return 0;
	wait->lock = ctx[0] | kind;
	wait->task = bpf_get_current_task();
	wait->check = wait->task ^ wait->lock;
	return 0;
}

SEC("tp_btf/contention_end")
int contention_end(__u64 *ctx)
{
	struct wait *wait = wait_of(bpf_get_current_pid_tgid());

	// While the thread waits, locks inside of the scheduler and of interrupts may be contended, too.
	if (wait && (wait->lock & ~(__u64)KIND_MASK) == ctx[0] && wait->task == bpf_get_current_task())
		wait->task = 0;
	return 0;
}
