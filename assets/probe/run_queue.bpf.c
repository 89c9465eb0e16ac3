// SPDX-License-Identifier: MIT OR GPL-2.0
// How long threads waited for a CPU, by CPU and by process, when they get it: from the time at which the kernel queued them.
// src/kernel/probe/run_queue.rs loads the object and reads the maps; build.sh makes it again, and .ci/run compares the bytes.
//
// The types have only the members that are read: the loader finds where they lie in the running kernel (CO-RE).
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define RELOCATED __attribute__((preserve_access_index))

struct rq { __u64 clock; } RELOCATED;
struct cfs_rq { struct rq *rq; } RELOCATED;
struct sched_entity { struct cfs_rq *cfs_rq; } RELOCATED;
// 0 while the thread runs or sleeps; else the run queue's clock when it was queued, after a wake-up or a preemption
struct sched_info { unsigned long long last_queued; } RELOCATED;
struct task_struct { int pid, tgid; struct sched_entity se; struct sched_info sched_info; } RELOCATED;

#define SUB_BUCKET_SHIFT 3
#include "histogram_buckets.h"
// `TABLE_BITS` in run_queue.rs, `MAX_PROBES` in slot_table.rs
enum { TABLE_BITS = 12, TABLE_PLACES = 1 << TABLE_BITS, MAX_PROBES = 8 };

struct histogram { __u64 buckets[BUCKETS]; };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	// CPUs: set by the loader.
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct histogram);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	// Slots: set by the loader.
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct histogram);
} processes SEC(".maps");

// The processes that are counted: filled in by the monitor.
struct place { __u32 process, slot; };
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TABLE_PLACES);
	__type(key, __u32);
	__type(value, struct place);
} places SEC(".maps");

// Set by the loader; 0 is any process.
const volatile __u32 only_process = 0;

// Numbers of processes that began together follow each other: without this they would take all places in a row. As in run_queue.rs.
static __always_inline __u32 hash_of(__u32 process)
{
	return process * 2654435761u >> (32 - TABLE_BITS);
}

SEC("tp_btf/sched_switch")
int sched_switch(__u64 *ctx)
{
	struct task_struct *next = (void *)ctx[2];
	__u64 queued = next->sched_info.last_queued, now;
	__u32 process = next->tgid, cpu = bpf_get_smp_processor_id(), at;
	struct histogram *histogram;

	if (!queued || !next->pid || (only_process && process != only_process))
		return 0;
	now = next->se.cfs_rq->rq->clock;
	at = bucket_of(now > queued ? now - queued : 0);
	histogram = bpf_map_lookup_elem(&cpus, &cpu);
	if (histogram)
		histogram->buckets[at]++;
#pragma clang loop unroll(disable)
	for (int probe = 0; probe < MAX_PROBES; probe++) {
		__u32 index = (hash_of(process) + probe) & (TABLE_PLACES - 1);
		struct place *place = bpf_map_lookup_elem(&places, &index);

		if (!place || place->process != process)
			continue;
		index = place->slot;
		histogram = bpf_map_lookup_elem(&processes, &index);
		// Its threads run on several CPUs.
		if (histogram)
			__sync_fetch_and_add(&histogram->buckets[at], 1);
		break;
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
