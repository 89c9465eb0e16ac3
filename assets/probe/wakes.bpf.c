// SPDX-License-Identifier: MIT OR GPL-2.0
// Which thread wakes which: of the threads of some processes, the time that they run, wait for a CPU and are blocked, in which system
// call, and for a futex the thread that woke them there. Counted in maps; no event leaves the kernel.
// src/kernel/probe/wakes.rs loads the object and reads the maps; build.sh makes it again, and .ci/run compares the bytes.
#include "task.h"

enum { TASK_UNINTERRUPTIBLE = 0x2, TASK_WAKING = 0x200 };
enum { FUTEX_PRIVATE = 0x80 };
// Commands of a thread that waits, and of one that wakes others (include/uapi/linux/futex.h)
enum {
	WAITING_COMMANDS = 1 << 0 | 1 << 6 | 1 << 9 | 1 << 11 | 1 << 13,
	WAKING_COMMANDS = 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 10 | 1 << 12,
	PI_COMMANDS = 1 << 6 | 1 << 13,
};
// The values that locks wait with: of a contended mutex; FUTEX_WAITERS and a thread id.
enum { CONTENDED = 2, TID_MASK = 0x3fffffff, MAX_TID = 1 << 22 };
#define WAITERS 0x80000000u

// As in wakes.rs.
enum { WATCHED_WORDS = 1024, THREADS = 4096, FUTEXES = 1024, EDGES = 32768, MAX_PROBES = 8, MAX_EDGE_PROBES = 16 };
enum { RUNNING = 1, RUNNABLE, BLOCKED };
// What a thread waits in: the number of its system call, or NO_CALL; in D; or a futex: its place plus one.
enum { IN_D = 1 << 16, IS_FUTEX = 1 << 17 };
// The key of an edge, from its lowest bit: what the thread waits in (18 bits), the place of the thread that woke it, plus one (13), what that
// one waited in (18), and the place of the thread (12).
enum { WAKER_SHIFT = 18, HOLD_SHIFT = 31, AT_SHIFT = 49 };

struct control {
	// CLOCK_MONOTONIC since which it is attached; what is known of a thread from before is out of date. Until then the reader adds what
	// each thread did last.
	__u64 since, padding[7];
	// The processes that are counted: bit `tgid` modulo 65,536. What is counted of others with the same bit, the reader drops.
	__u64 watched[WATCHED_WORDS];
	// Events for which there was no place
	__u64 lost;
};

struct thread {
	__u64 key, since;
	__u32 state, woken_at;
	__u64 run_ns, runnable_ns;
	// Since it was last woken at a futex, or last woke another one there
	__u64 held_since, held_run_ns, held_runnable_ns, held_wait_ns;
	__u32 held_wait, padding;
	// Its last wait at a futex, which ended with `woken_at` set
	__u64 woken_ns, futex_wait_ns, held_wait_end, more_padding[3];
};

struct futex {
	__u64 key, address;
	__u32 tgid, command;
	// Waits that ended; those with the value of a lock, with a timeout, and with another value than the first
	__u64 waits, lock_values, timeouts, other_values, value;
	__u64 last_wake;
	// Wake-ups by threads; those by threads that were last woken here themselves, and how long before
	__u64 wakes, passed_on, passed_on_ns, padding[4];
};

// A thread that waited, what it waited in, the thread that woke it at a futex, and what that one waited in longest meanwhile.
struct edge {
	__u64 key, count, blocked_ns;
	// Of the thread that woke it, since the wake-up before at this futex: all of it, and its parts
	__u64 held_ns, run_ns, runnable_ns, wait_ns, padding;
};

// The same of one wake-up; `in` is 0 if it did not wait.
struct hold { __u64 held_ns, run_ns, runnable_ns, wait_ns; __u32 in; };

#define TABLE(name, places, type_of_value) \
	struct { \
		__uint(type, BPF_MAP_TYPE_ARRAY); \
		__uint(map_flags, BPF_F_MMAPABLE); \
		__uint(max_entries, places); \
		__type(key, __u32); \
		__type(value, type_of_value); \
	} name SEC(".maps")

TABLE(control_map, 1, struct control);
TABLE(threads, THREADS, struct thread);
TABLE(futexes, FUTEXES, struct futex);
TABLE(edges, EDGES, struct edge);

static __always_inline struct control *control_of(void)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(&control_map, &first);
}

static __always_inline bool is_watched(struct control *control, __u32 tgid)
{
	return control->watched[tgid >> 6 & (WATCHED_WORDS - 1)] >> (tgid & 63) & 1;
}

static __always_inline void add(__u64 *counter, __u64 by)
{
	__sync_fetch_and_add(counter, by);
}

// The place with this key, or a free one, which gets it.
#define FIND(map, places, probes, first, wanted, control, at, entry) do { \
	entry = 0; \
	_Pragma("unroll") \
	for (int probe = 0; probe < (probes); probe++) { \
		__u32 place = ((first) + probe) & ((places) - 1); \
		typeof(entry) there = bpf_map_lookup_elem(&map, &place); \
		__u64 found; \
		if (!there) \
			break; \
		found = there->key; \
		if (!found) { \
			found = __sync_val_compare_and_swap(&there->key, 0, wanted); \
			if (!found) \
				found = wanted; \
		} \
		if (found == wanted) { \
			entry = there; \
			*(at) = place; \
			break; \
		} \
	} \
	if (!entry) \
		add(&(control)->lost, 1); \
} while (0)

static __always_inline __u64 mixed(__u64 number)
{
	number *= 0x9e3779b97f4a7c15;
	return number ^ number >> 29;
}

static __always_inline struct thread *thread_of(struct control *control, struct ids *ids, __u32 *at)
{
	__u64 key = (__u64)ids->tgid << 32 | ids->tid;
	struct thread *thread;

	// The numbers of threads are consecutive: by themselves those of several processes would share places.
	FIND(threads, THREADS, MAX_PROBES, mixed(key) >> 52, key, control, at, thread);
	return thread;
}

static __always_inline struct futex *futex_of(struct control *control, struct call *call, __u32 tgid, __u32 *at)
{
	__u64 address = call->arguments[0], key;
	struct futex *futex;

	// In memory that processes share, threads of others wait there, too.
	if (!(call->arguments[1] & FUTEX_PRIVATE))
		tgid = 0;
	key = mixed(address + mixed(tgid)) | 1;
	FIND(futexes, FUTEXES, MAX_PROBES, key >> 20, key, control, at, futex);
	if (futex && !futex->waits) {
		futex->address = address;
		futex->tgid = tgid;
		futex->command = call->arguments[1] & FUTEX_COMMAND;
		futex->value = (__u32)call->arguments[2];
	}
	return futex;
}

static __always_inline void count_wait(struct futex *futex, struct call *call)
{
	__u32 value = call->arguments[2], tid = value & TID_MASK;

	add(&futex->waits, 1);
	if (value == CONTENDED || (value & WAITERS && tid && tid < MAX_TID) || is_command(call, PI_COMMANDS))
		add(&futex->lock_values, 1);
	if (value != futex->value)
		add(&futex->other_values, 1);
	if (call->arguments[3])
		add(&futex->timeouts, 1);
}

static __always_inline __u64 later(__u64 a, __u64 b) { return a > b ? a : b; }
static __always_inline __u64 least(__u64 a, __u64 b) { return a < b ? a : b; }
// Another CPU may have set `since` after this one read its clock.
static __always_inline __u64 elapsed(__u64 since, __u64 now) { return now > since ? now - since : 0; }

static __always_inline bool is_outdated(struct control *control, struct thread *thread)
{
	return thread->since < control->since;
}

static __always_inline void begin_hold(struct thread *thread, __u64 now)
{
	thread->held_since = now;
	thread->held_run_ns = thread->held_runnable_ns = thread->held_wait_ns = 0;
	thread->held_wait = 0;
}

// The current thread wakes another one at a futex, which waited for so long: since the wake-up before, or since that one waited, it held
// what the others waited for.
static __always_inline void count_wake(struct futex *futex, __u32 at, struct hold *hold, struct thread *waker, __u64 since,
				       __u64 blocked, __u64 now)
{
	__u64 begin = later(futex->last_wake, now - blocked), held = elapsed(begin, now);
	__u64 running = waker->held_run_ns + elapsed(later(later(waker->since, waker->held_since), since), now);
	__u64 runnable = waker->held_runnable_ns, waited = waker->held_wait_ns, in = waker->held_wait;
	__u64 wait_end = waker->held_wait_end;

	add(&futex->wakes, 1);
	if (waker->woken_at == at + 1 && waker->woken_ns >= since) {
		add(&futex->passed_on, 1);
		add(&futex->passed_on_ns, elapsed(waker->woken_ns, now));
	} else if (waker->woken_at && waker->woken_ns > begin && waker->futex_wait_ns > waited) {
		// It waited for another lock meanwhile.
		waited = waker->futex_wait_ns;
		in = IS_FUTEX | waker->woken_at;
		wait_end = waker->woken_ns;
	}
	// What it did before it got the lock does not count.
	waited = least(waited, elapsed(begin, wait_end));
	running = least(running, held - least(waited, held));
	runnable = least(runnable, held - least(waited + running, held));
	futex->last_wake = now;
	hold->held_ns = held;
	hold->run_ns = running;
	hold->runnable_ns = runnable;
	hold->wait_ns = waited;
	hold->in = waited ? in : 0;
	begin_hold(waker, now);
	waker->woken_at = 0;
}

static __always_inline int count_waking(__u64 *ctx, bool has_btf)
{
	struct task_struct *task = (void *)ctx[0], *current;
	struct control *control = control_of();
	struct call call, wakers_call;
	struct thread *thread, *waker = 0;
	struct futex *futex = 0;
	struct hold hold = {};
	struct edge *edge;
	struct ids ids, wakers_ids;
	__u32 at, futex_at = 0, waker_at = 0, in, edge_at;
	__u64 now, blocked = 0, key;

	if (!control)
		return 0;
	read_ids(task, &ids, has_btf);
	if (!is_watched(control, ids.tgid))
		return 0;
	thread = thread_of(control, &ids, &at);
	if (!thread)
		return 0;
	now = bpf_ktime_get_ns();
	if (is_outdated(control, thread))
		blocked = elapsed(control->since, now);
	else if (thread->state == BLOCKED)
		blocked = elapsed(thread->since, now);
	// One that is still on its CPU has not begun to wait, or is about to.
	if (is_outdated(control, thread) || thread->state != RUNNING) {
		thread->state = RUNNABLE;
		thread->since = now;
	}
	read_call(task, &call, has_btf);
	in = call.number | (read_state(task, has_btf) & TASK_UNINTERRUPTIBLE ? IN_D : 0);
	if (is_command(&call, WAITING_COMMANDS)) {
		futex = futex_of(control, &call, ids.tgid, &futex_at);
		if (!futex)
			return 0;
		count_wait(futex, &call);
		in = IS_FUTEX | (futex_at + 1);
		current = current_task(has_btf);
		read_current_ids(current, &wakers_ids, has_btf);
		if (is_watched(control, wakers_ids.tgid)) {
			read_call(current, &wakers_call, has_btf);
			// Otherwise it is a timeout, a signal, or an interrupt.
			if (is_command(&wakers_call, WAKING_COMMANDS) && wakers_call.arguments[0] == call.arguments[0] &&
			    (!futex->tgid || wakers_ids.tgid == ids.tgid))
				waker = thread_of(control, &wakers_ids, &waker_at);
		}
	}
	if (waker)
		count_wake(futex, futex_at, &hold, waker, control->since, blocked, now);
	key = 1ULL << 63 | (__u64)at << AT_SHIFT | (__u64)hold.in << HOLD_SHIFT | (waker ? (__u64)(waker_at + 1) << WAKER_SHIFT : 0) | in;
	FIND(edges, EDGES, MAX_EDGE_PROBES, mixed(key) >> 49, key, control, &edge_at, edge);
	if (!edge)
		return 0;
	add(&edge->count, 1);
	add(&edge->blocked_ns, blocked);
	if (waker) {
		add(&edge->held_ns, hold.held_ns);
		add(&edge->run_ns, hold.run_ns);
		add(&edge->runnable_ns, hold.runnable_ns);
		add(&edge->wait_ns, hold.wait_ns);
	}
	if (futex) {
		begin_hold(thread, now);
		thread->woken_at = futex_at + 1;
		thread->woken_ns = now;
		thread->futex_wait_ns = blocked;
	} else if (thread->held_wait == in) {
		thread->held_wait_ns += blocked;
		thread->held_wait_end = now;
	} else if (blocked > thread->held_wait_ns) {
		thread->held_wait_ns = blocked;
		thread->held_wait = in;
		thread->held_wait_end = now;
	}
	return 0;
}

static __always_inline void leave_cpu(struct control *control, struct ids *ids, unsigned int state, bool is_preempted, __u64 now)
{
	struct thread *thread;
	__u32 at;

	thread = thread_of(control, ids, &at);
	if (!thread)
		return;
	if (is_outdated(control, thread)) {
		begin_hold(thread, control->since);
		thread->since = control->since;
	}
	thread->run_ns += elapsed(thread->since, now);
	thread->held_run_ns += elapsed(later(thread->since, thread->held_since), now);
	// One that is being woken already has not slept.
	thread->state = is_preempted || !state || state & TASK_WAKING ? RUNNABLE : BLOCKED;
	thread->since = now;
}

static __always_inline void enter_cpu(struct control *control, struct ids *ids, __u64 now)
{
	struct thread *thread;
	__u32 at;

	thread = thread_of(control, ids, &at);
	if (!thread)
		return;
	if (is_outdated(control, thread)) {
		begin_hold(thread, now);
		// One that was seen before, and was not woken since, was runnable all the time. Another one may be new.
		if (thread->since)
			thread->runnable_ns += elapsed(control->since, now);
	} else if (thread->state == RUNNABLE) {
		thread->runnable_ns += elapsed(thread->since, now);
		thread->held_runnable_ns += elapsed(later(thread->since, thread->held_since), now);
	}
	thread->state = RUNNING;
	thread->since = now;
}

static __always_inline int count_switch(__u64 *ctx, bool has_btf)
{
	struct task_struct *previous = (void *)ctx[1], *next = (void *)ctx[2];
	struct control *control = control_of();
	struct ids leaving, entering;
	bool leaves, enters;
	__u64 now;

	if (!control)
		return 0;
	read_current_ids(previous, &leaving, has_btf);
	read_ids(next, &entering, has_btf);
	leaves = is_watched(control, leaving.tgid);
	enters = is_watched(control, entering.tgid);
	if (!leaves && !enters)
		return 0;
	now = bpf_ktime_get_ns();
	if (leaves)
		leave_cpu(control, &leaving, read_state(previous, has_btf), ctx[0] & 1, now);
	if (enters)
		enter_cpu(control, &entering, now);
	return 0;
}

SEC("tp_btf/sched_waking")
int waking(__u64 *ctx) { return count_waking(ctx, true); }

SEC("tp_btf/sched_switch")
int switched(__u64 *ctx) { return count_switch(ctx, true); }

SEC("raw_tp/sched_waking")
int raw_waking(__u64 *ctx) { return count_waking(ctx, false); }

SEC("raw_tp/sched_switch")
int raw_switched(__u64 *ctx) { return count_switch(ctx, false); }

char LICENSE[] SEC("license") = "Dual MIT/GPL";
