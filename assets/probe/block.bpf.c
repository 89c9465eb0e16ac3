// SPDX-License-Identifier: MIT OR GPL-2.0
// Latencies of block requests, counted when they complete: histograms by device and operation, from the request's own times.
// src/kernel/probe/block.rs loads the object and reads the maps; build.sh makes it again, and .ci/run compares the bytes.
//
// The types have only the members that are read: the loader finds where they lie in the running kernel (CO-RE).
#include <linux/types.h>
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define RELOCATED __attribute__((preserve_access_index))

struct gendisk { int major, first_minor; } RELOCATED;
struct request_queue { struct gendisk *disk; } RELOCATED;
struct request {
	struct request_queue *q;
	unsigned int cmd_flags, rq_flags, __data_len;
	__u64 __sector, start_time_ns, io_start_time_ns;
} RELOCATED;
// Before 5.15 the queue does not name its disk.
struct request___before_5_15 { struct gendisk *rq_disk; } RELOCATED;
// Since 6.11; before, the flag is a constant.
enum rqf_flags { __RQF_FLUSH_SEQ = 1 };

enum { RQF_FLUSH_SEQ_BEFORE_6_11 = 1 << 4, REQ_OP_MASK = 0xff, REQ_OP_DRV_IN = 34, REQ_OP_DRV_OUT = 35 };
enum { REQ_OP_READ = 0, REQ_OP_FLUSH = 2, REQ_OP_DISCARD = 3 };
// `Operation` in src/sample/disk.rs.
enum { READ, WRITE, FLUSH, DISCARD, OPERATIONS };
#define SUB_BUCKET_SHIFT 3
#include "histogram_buckets.h"
// `TABLE_PLACES` in block.rs, `MAX_PROBES` in slot_table.rs
enum { TABLE_PLACES = 128, MAX_PROBES = 8 };

struct bucket { __u64 completed, sequential, queued, on_device; };
// One operation of one device, of the CPUs of one shard.
struct histograms { __u64 requests; struct bucket buckets[BUCKETS]; };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	// Shards × slots × operations: set by the loader.
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct histograms);
} histograms SEC(".maps");

// A known device: filled in by the monitor. A cache line each.
struct device { __u32 number, slot; __u64 last_end[OPERATIONS], padding[3]; };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TABLE_PLACES);
	__type(key, __u32);
	__type(value, struct device);
} devices SEC(".maps");

// Set by the loader: a power of two, and whether several CPUs count in one shard.
const volatile __u32 shards = 1, slots = 1, is_shared = 0;

static __always_inline struct device *find_device(__u32 number)
{
	__u32 place = (number >> 20) * 31 + number;

#pragma unroll
	for (int probe = 0; probe < MAX_PROBES; probe++) {
		__u32 at = (place + probe) & (TABLE_PLACES - 1);
		struct device *device = bpf_map_lookup_elem(&devices, &at);

		if (device && device->number == number)
			return device;
	}
	return 0;
}

static __always_inline void add_one(__u64 *counter)
{
	if (is_shared)
		__sync_fetch_and_add(counter, 1);
	else
		(*counter)++;
}

static __always_inline struct bucket *bucket_at(struct histograms *all, __u64 ns)
{
	return &all->buckets[bucket_of(ns)];
}

static __always_inline bool is_in_flush_sequence(struct request *request)
{
	unsigned int flag = RQF_FLUSH_SEQ_BEFORE_6_11;

	if (bpf_core_enum_value_exists(enum rqf_flags, __RQF_FLUSH_SEQ))
		flag = 1 << bpf_core_enum_value(enum rqf_flags, __RQF_FLUSH_SEQ);
	return request->rq_flags & flag;
}

static __always_inline struct gendisk *disk_of(struct request *request)
{
	struct request___before_5_15 *old = (void *)request;

	return bpf_core_field_exists(old->rq_disk) ? old->rq_disk : request->q->disk;
}

SEC("tp_btf/block_rq_complete")
int request_completed(__u64 *ctx)
{
	struct request *request = (void *)ctx[0];
	__u32 bytes = ctx[2], kind = request->cmd_flags & REQ_OP_MASK, operation, at;
	__u64 started = request->start_time_ns, issued = request->io_start_time_ns, now, begin, end;
	struct gendisk *disk;
	struct histograms *all;
	struct device *device;
	struct bucket *bucket;

	// A part of it. Requests of a driver of its own, and without a time (queue/iostats is 0), are not in /proc/diskstats either.
	if (bytes < request->__data_len || kind == REQ_OP_DRV_IN || kind == REQ_OP_DRV_OUT || !started)
		return 0;
	operation = kind == REQ_OP_FLUSH ? FLUSH : kind == REQ_OP_DISCARD ? DISCARD : kind & 1 ? WRITE : READ;
	// A write that is flushed before or after: it completes once more, when all of that is done.
	if (operation != FLUSH && is_in_flush_sequence(request))
		return 0;
	disk = disk_of(request);
	if (!disk)
		return 0;
	device = find_device((__u32)disk->major << 20 | disk->first_minor);
	if (!device || device->slot >= slots)
		return 0;
	at = ((bpf_get_smp_processor_id() & (shards - 1)) * slots + device->slot) * OPERATIONS + operation;
	all = bpf_map_lookup_elem(&histograms, &at);
	if (!all)
		return 0;
	now = bpf_ktime_get_ns();
	add_one(&all->requests);
	bucket = bucket_at(all, now > started ? now - started : 0);
	add_one(&bucket->completed);
	if (bytes) {
		begin = request->__sector;
		end = begin + (bytes >> 9);
		if (device->last_end[operation] == begin)
			add_one(&bucket->sequential);
		device->last_end[operation] = end;
	}
	if (issued >= started) {
		add_one(&bucket_at(all, issued - started)->queued);
		add_one(&bucket_at(all, now > issued ? now - issued : 0)->on_device);
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
