//! Finds a caller's frame where unwinding needs the frame pointer: /proc/PID/task/TID/syscall has the stack pointer alone. A
//! function that keeps its frame by rbp says in its first instructions how large the frame is; else the return address is
//! searched for on the stack.

use super::process_memory::{ProcessMemory, StackMemory};

/// Of the stack that is searched for a return address.
const MAX_FRAME_BYTES: u64 = 8 << 10;
/// A prologue with six pushes and an allocation takes 22 bytes.
const PROLOGUE_BYTES: usize = 48;
/// The longest call instruction, and one more
const CALL_BYTES: usize = 8;

/// What is known of the code of a process.
pub trait Code {
    /// Whether code is mapped at this address.
    fn is_code(&self, address: u64) -> bool;
    /// Whether a known function begins at this address.
    fn begins_function(&self, address: u64) -> bool;
}

/// The frame of the caller: the registers after the return from a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    pub return_address: u64,
    pub stack_pointer: u64,
    /// `None`: the function has not changed it
    pub frame_pointer: Option<u64>,
}

/// The instruction before a return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    To(u64),
    Indirect,
}

/// The caller of a function that begins at `function`, where its stack pointer is `stack_pointer`.
pub fn find_caller(
    memory: ProcessMemory,
    stack: &mut StackMemory,
    code: &impl Code,
    function: Option<u64>,
    stack_pointer: u64,
) -> Option<Caller> {
    let by_prologue = function.and_then(|function| {
        let mut bytes = [0; PROLOGUE_BYTES];
        let read = memory.read(function, &mut bytes).ok()?;
        let frame_pointer = stack_pointer.checked_add(frame_bytes(bytes.get(..read)?)?)?;
        caller_at(memory, stack, code, frame_pointer.checked_add(8)?).map(|(caller, _)| caller)
    });
    by_prologue.or_else(|| search(memory, stack, code, function, stack_pointer))
}

/// From the stack pointer to the frame pointer, by the first instructions: `push rbp; mov rbp, rsp; push …; sub rsp, n`.
fn frame_bytes(code: &[u8]) -> Option<u64> {
    let code = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code); // endbr64
    let code = code.strip_prefix(&[0x55])?; // push rbp
    let mut code = code.strip_prefix(&[0x48, 0x89, 0xe5]).or_else(|| code.strip_prefix(&[0x48, 0x8b, 0xec]))?; // mov rbp, rsp
    let mut bytes = 0;
    loop {
        code = match code {
            [0x50..=0x57, rest @ ..] | [0x41, 0x50..=0x57, rest @ ..] => rest, // push
            [0x48, 0x83, 0xec, size, ..] => return Some(bytes + u64::from(*size)), // sub rsp, imm8
            [0x48, 0x81, 0xec, a, b, c, d, ..] => return Some(bytes + u64::from(u32::from_le_bytes([*a, *b, *c, *d]))),
            _ => return Some(bytes),
        };
        bytes += 8;
    }
}

/// A direct call of the function itself is believed; a call through a pointer, or of a stub, if a frame pointer stands beside the return
/// address.
fn search(
    memory: ProcessMemory,
    stack: &mut StackMemory,
    code: &impl Code,
    function: Option<u64>,
    stack_pointer: u64,
) -> Option<Caller> {
    let mut plausible = None;
    let slots = (stack_pointer..stack_pointer.checked_add(MAX_FRAME_BYTES)?).step_by(8);
    for slot in slots {
        let Some((mut caller, call)) = caller_at(memory, stack, code, slot) else {
            if !stack.contains(slot) {
                break;
            }
            continue;
        };
        if slot == stack_pointer {
            caller.frame_pointer = None;
        }
        let is_of_function = matches!(call, Call::To(target) if Some(target) == function);
        if is_of_function {
            return Some(caller);
        }
        let is_of_another = matches!(call, Call::To(target) if function.is_some() && code.begins_function(target));
        let has_frame_pointer = caller.frame_pointer.is_some_and(|pointer| pointer > slot && stack.contains(pointer));
        if !is_of_another && has_frame_pointer && plausible.is_none() {
            plausible = Some(caller);
        }
    }
    plausible
}

/// If a return address is at this place of the stack: the caller, whose frame pointer is the word before it.
fn caller_at(memory: ProcessMemory, stack: &mut StackMemory, code: &impl Code, slot: u64) -> Option<(Caller, Call)> {
    let return_address = stack.word(slot).filter(|&address| code.is_code(address))?;
    let mut bytes = [0; CALL_BYTES];
    let read = memory.read(return_address.checked_sub(CALL_BYTES as u64)?, &mut bytes).ok()?;
    let call = call_before(return_address, bytes.get(..read)?)?;
    let frame_pointer = stack.word(slot.checked_sub(8)?);
    Some((Caller { return_address, stack_pointer: slot.checked_add(8)?, frame_pointer }, call))
}

/// The call instruction that ends before `address`, by the bytes before it.
fn call_before(address: u64, bytes: &[u8]) -> Option<Call> {
    let &[b7, b6, b5, b4, b3, b2, b1] = bytes.last_chunk::<7>()?;
    if b5 == 0xe8 {
        return Some(Call::To(address.wrapping_add_signed(i64::from(i32::from_le_bytes([b4, b3, b2, b1])))));
    }
    // ff /2: a register, or memory: a register's with no, 8 or 32 bits of displacement, or relative to rip.
    let is_call = |opcode: u8, operand: u8| opcode == 0xff && operand >> 3 & 7 == 2;
    [(b2, b1), (b3, b2), (b4, b3), (b6, b5), (b7, b6)]
        .into_iter()
        .any(|(opcode, operand)| is_call(opcode, operand))
        .then_some(Call::Indirect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prologue_says_how_large_the_frame_is() {
        let push_and_move = [0x55, 0x48, 0x89, 0xe5];
        assert_eq!(frame_bytes(&[&push_and_move[..], &[0x48, 0x83, 0xec, 0x20]].concat()), Some(0x20));
        let pushes =
            [&[0xf3, 0x0f, 0x1e, 0xfa], &push_and_move[..], &[0x41, 0x57, 0x53, 0x48, 0x81, 0xec, 0, 1, 0, 0]].concat();
        assert_eq!(frame_bytes(&pushes), Some(0x110));
        assert_eq!(frame_bytes(&push_and_move), Some(0));
        assert_eq!(frame_bytes(&[0x48, 0x83, 0xec, 0x20]), None, "it keeps no frame pointer");
    }

    #[test]
    fn a_return_address_follows_a_call() {
        let direct = [0x90, 0x90, 0x90, 0xe8, 0xf0, 0xff, 0xff, 0xff];
        assert_eq!(call_before(0x1000, &direct), Some(Call::To(0xff0)));
        let indirect: [&[u8]; 4] = [&[0xff, 0xd0], &[0xff, 0x50, 0x18], &[0xff, 0x15, 1, 2, 3, 4], &[0x41, 0xff, 0xd4]];
        for call in indirect {
            let bytes = [&[0x90; 8][call.len()..], call].concat();
            assert_eq!(call_before(0x1000, &bytes), Some(Call::Indirect), "{call:x?}");
        }
        assert_eq!(call_before(0x1000, &[0x90; 8]), None);
        assert_eq!(call_before(0x1000, &[]), None);
    }
}
