// Buckets of histograms of times: 128 ns wide up to 2 << SUB_BUCKET_SHIFT of them, then 1 << SUB_BUCKET_SHIFT to each power of two. The
// last one has all longer times too. The program defines SUB_BUCKET_SHIFT; src/sample/histogram_bucket.rs has the edges.
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

enum { BUCKETS = 32 << SUB_BUCKET_SHIFT, BUCKET_UNIT_SHIFT = 7 };

static __always_inline __u32 unchecked_bucket_of(__u64 ns)
{
	__u64 units = ns >> BUCKET_UNIT_SHIFT, high;
	__u32 exponent = 0;

	if (units >> (31 + SUB_BUCKET_SHIFT))
		return BUCKETS - 1;
	if (units < 1 << SUB_BUCKET_SHIFT)
		return units;
	high = units;
	if (high >> 32) { exponent += 32; high >>= 32; }
	if (high >> 16) { exponent += 16; high >>= 16; }
	if (high >> 8) { exponent += 8; high >>= 8; }
	if (high >> 4) { exponent += 4; high >>= 4; }
	if (high >> 2) { exponent += 2; high >>= 2; }
	if (high >> 1) exponent += 1;
	return ((exponent - SUB_BUCKET_SHIFT + 1) << SUB_BUCKET_SHIFT) +
		((units >> (exponent - SUB_BUCKET_SHIFT)) & ((1 << SUB_BUCKET_SHIFT) - 1));
}

static __always_inline __u32 bucket_of(__u64 ns)
{
	__u32 bucket = unchecked_bucket_of(ns);

	// The compiler knows that it is less; the verifier does not.
	asm volatile("%[bucket] &= %[mask]" : [bucket] "+r"(bucket) : [mask] "i"(BUCKETS - 1));
	return bucket;
}
