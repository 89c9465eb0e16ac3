// What programs read of a task: by BTF in sections tp_btf, or, in a kernel without BTF, in sections raw_tp at the offsets that the loader
// has found (task_layout.bpf.c). The fields of the tracepoints themselves (events/sched/sched_waking/format) do not suffice: they have the
// thread id, but neither its process nor its system call.
//
// The types have only the members that are read: the loader finds where they lie in the running kernel (CO-RE).
#include <linux/types.h>
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define RELOCATED __attribute__((preserve_access_index))

struct sched_info { unsigned long pcount; } RELOCATED;
struct task_struct { unsigned int __state; int pid, tgid; struct sched_info sched_info; } RELOCATED;
struct pt_regs;
struct pt_regs___x86 { unsigned long di, si, dx, r10, orig_ax; } RELOCATED;
struct pt_regs___arm64 { __u64 regs[31]; int syscallno; } RELOCATED;

enum { FUTEX_X86 = 202, FUTEX_ARM64 = 98, FUTEX_COMMAND = 0x7f };
enum { NO_CALL = 0xffff };

// Set by the loader where there is no BTF.
// In `struct task_struct`:
const volatile __u32 state_at = 0, pid_at = 0, stack_at = 0;
// The registers, from `task_struct.stack`
const volatile __u32 registers_at = 0;
// In the registers: number of the system call, and its first four arguments
const volatile __u32 call_number_at = 0, argument_at[4] = {};
// The number of the system call futex
const volatile __u32 futex_number = 0;

struct ids { __u32 tid, tgid; };
struct call { __u64 number, arguments[4]; bool is_futex; };

static __always_inline void read_ids(struct task_struct *task, struct ids *ids, bool has_btf)
{
	if (has_btf) {
		ids->tid = task->pid;
		ids->tgid = task->tgid;
	} else if (bpf_probe_read_kernel(ids, sizeof *ids, (void *)task + pid_at)) {
		// No process has this id.
		ids->tid = ids->tgid = 0;
	}
}

// The same of the current task, which at sched_switch is still the one that leaves the CPU.
static __always_inline void read_current_ids(struct task_struct *current, struct ids *ids, bool has_btf)
{
	__u64 both;

	if (has_btf) {
		read_ids(current, ids, true);
		return;
	}
	both = bpf_get_current_pid_tgid();
	ids->tid = both;
	ids->tgid = both >> 32;
}

static __always_inline unsigned int read_state(struct task_struct *task, bool has_btf)
{
	unsigned int state = 0;

	if (has_btf)
		return task->__state;
	bpf_probe_read_kernel(&state, sizeof state, (void *)task + state_at);
	return state;
}

static __always_inline struct task_struct *current_task(bool has_btf)
{
	return has_btf ? bpf_get_current_task_btf() : (struct task_struct *)bpf_get_current_task();
}

static __always_inline void read_call_by_layout(struct task_struct *task, struct call *call)
{
	void *registers;
	__u32 number;

	if (bpf_probe_read_kernel(&registers, sizeof registers, (void *)task + stack_at))
		return;
	registers += registers_at;
	if (bpf_probe_read_kernel(&number, sizeof number, registers + call_number_at))
		return;
	call->number = number & NO_CALL;
	if (number != futex_number)
		return;
	call->is_futex = true;
#pragma unroll
	for (int argument = 0; argument < 4; argument++)
		call->is_futex &= !bpf_probe_read_kernel(&call->arguments[argument], 8, registers + argument_at[argument]);
}

static __always_inline void read_call(struct task_struct *task, struct call *call, bool has_btf)
{
	struct pt_regs *registers;
	struct pt_regs___x86 *x86;
	struct pt_regs___arm64 *arm64;

	call->number = NO_CALL;
	call->is_futex = false;
	if (!has_btf) {
		read_call_by_layout(task, call);
		return;
	}
	registers = (void *)bpf_task_pt_regs(task);
	x86 = (void *)registers;
	arm64 = (void *)registers;
	if (bpf_core_field_exists(x86->orig_ax)) {
		call->number = x86->orig_ax & NO_CALL;
		call->arguments[0] = x86->di;
		call->arguments[1] = x86->si;
		call->arguments[2] = x86->dx;
		call->arguments[3] = x86->r10;
		call->is_futex = x86->orig_ax == FUTEX_X86;
	} else if (bpf_core_field_exists(arm64->syscallno)) {
		call->number = arm64->syscallno & NO_CALL;
		call->arguments[0] = arm64->regs[0];
		call->arguments[1] = arm64->regs[1];
		call->arguments[2] = arm64->regs[2];
		call->arguments[3] = arm64->regs[3];
		call->is_futex = arm64->syscallno == FUTEX_ARM64;
	}
}

static __always_inline bool is_command(struct call *call, __u32 commands)
{
	return call->is_futex && commands >> (call->arguments[1] & FUTEX_COMMAND & 31) & 1;
}
