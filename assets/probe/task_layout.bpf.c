// SPDX-License-Identifier: MIT OR GPL-2.0
// Copies of what the kernel keeps of a few threads of the loader, each as it enters a system call and as it sleeps in that: from them
// src/kernel/probe/program_loader/task_layout.rs finds where the members of task_struct lie in a kernel that does not describe its types
// (BTF). task_layout/copies.rs there loads the object; build.sh makes it again, and .ci/run compares the bytes.
#include <linux/types.h>
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

// As in task_layout.rs.
enum { THREADS = 4, TASK_WORDS = 1024 };

// Set by the loader: offset in the registers of the number of the system call.
const volatile __u32 call_number_at = 0;

struct thread {
	// Set by the loader
	__u64 tid;
	// As the thread entered its last system call before it slept: id of process and thread, number of the call, address of its registers,
	// and the number that they have
	__u64 ids, call_number, registers_address, call_in_registers;
	__u64 has_entered, has_slept;
	__u64 at_entry[TASK_WORDS], asleep[TASK_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, THREADS);
	__type(key, __u32);
	__type(value, struct thread);
} threads SEC(".maps");

static __always_inline struct thread *current_thread(void)
{
	__u64 tid = (__u32)bpf_get_current_pid_tgid();

#pragma unroll
	for (__u32 place = 0; place < THREADS; place++) {
		__u32 at = place;
		struct thread *thread = bpf_map_lookup_elem(&threads, &at);
		if (thread && thread->tid == tid)
			return thread;
	}
	return 0;
}

SEC("raw_tp/sys_enter")
int entered(__u64 *ctx)
{
	struct thread *thread = current_thread();

	if (!thread || thread->has_slept)
		return 0;
	thread->ids = bpf_get_current_pid_tgid();
	thread->registers_address = ctx[0];
	thread->call_number = ctx[1];
	thread->has_entered = !bpf_probe_read_kernel(&thread->call_in_registers, sizeof(__u32), (void *)ctx[0] + call_number_at) &&
			      !bpf_probe_read_kernel(thread->at_entry, sizeof thread->at_entry, (void *)bpf_get_current_task());
	return 0;
}

SEC("raw_tp/sched_switch")
int slept(__u64 *ctx)
{
	// The thread that leaves the CPU is still the current one.
	struct thread *thread = current_thread();

	// A thread that is preempted does not sleep.
	if (!thread || !thread->has_entered || thread->has_slept || ctx[0] & 1)
		return 0;
	thread->has_slept = !bpf_probe_read_kernel(thread->asleep, sizeof thread->asleep, (void *)ctx[1]);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
