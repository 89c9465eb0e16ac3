// SPDX-License-Identifier: MIT OR GPL-2.0
// Which threads ran: one row a thread, straight from its task_struct. src/kernel/probe.rs loads the object;
// build.sh makes it again, and .ci/run compares the bytes.
//
// The types have only the members that are read: the loader finds where they lie in the running kernel (CO-RE).
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#define RELOCATED __attribute__((preserve_access_index))

struct sched_entity { __u64 sum_exec_runtime; } RELOCATED;
struct sched_info { unsigned long pcount; } RELOCATED;
struct task_struct {
	int pid, tgid;
	struct sched_entity se;
	struct sched_info sched_info;
} RELOCATED;
struct seq_file;
struct bpf_iter_meta { struct seq_file *seq; } RELOCATED;
struct bpf_iter__task { struct bpf_iter_meta *meta; struct task_struct *task; } RELOCATED;

// The same three figures as in /proc/PID/task/TID/schedstat, but for the run-queue wait. `Row` in probe.rs has the same layout.
struct row { __u32 tgid, tid; __u64 run_ns, timeslices; };

SEC("iter/task")
int tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct row row;

	if (!task)
		return 0;
	row.tgid = task->tgid;
	row.tid = task->pid;
	row.run_ns = task->se.sum_exec_runtime;
	row.timeslices = task->sched_info.pcount;
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
