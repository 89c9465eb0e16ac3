//! Unwinds the stack of a thread: from the function in which it entered the kernel to those that called it.

use framehop::x86_64::UnwindRegsX86_64;
use framehop::{FrameAddress, Unwinder};

use super::frame_pointer::{Code, find_caller};
use super::process_memory::{MAX_STACK_BYTES, ProcessMemory, Registers, StackMemory};
use super::process_space::ProcessSpace;
use super::table_loader::TableLoader;

/// Functions of a stack at most, as many as the kernel's stacks have.
const MAX_FUNCTIONS: usize = 64;
/// In place of a frame pointer that is not known: no stack is there, so that reading by it fails.
const UNKNOWN: u64 = 0x1001;

/// The functions of a stack, by an address in each.
#[derive(Debug)]
pub struct UnwoundStack {
    /// The innermost first
    pub addresses: Vec<u64>,
    /// Why the callers of the last one are not known; `None`: it is the outermost
    pub end: Option<String>,
}

/// Unwinds from these registers. `loader` reads what is missing.
pub fn unwind(
    space: &mut ProcessSpace,
    memory: ProcessMemory,
    stack: &mut StackMemory,
    registers: Registers,
    loader: &mut TableLoader,
) -> UnwoundStack {
    let mut known = UnwindRegsX86_64::new(registers.program_counter, registers.stack_pointer, UNKNOWN);
    let mut frame = FrameAddress::from_instruction_pointer(registers.program_counter);
    let mut addresses = Vec::new();
    loop {
        let address = frame.address_for_lookup();
        addresses.push(address);
        if addresses.len() == MAX_FUNCTIONS {
            return UnwoundStack { addresses, end: Some(format!("after {MAX_FUNCTIONS} functions")) };
        }
        if !space.is_loaded(address) {
            loader.load(space, address);
        }
        let before = known;
        let read = &mut |address| stack.word(address).ok_or(());
        let unwound = space.unwinder.unwind_frame(frame, &mut known, &mut space.cache, read);
        // A library may have been loaded since.
        if let Ok(Some(address)) = unwound
            && !space.is_mapped(address.wrapping_sub(1))
            && loader.refresh(space)
        {
            loader.load(space, frame.address_for_lookup());
        }
        let by_tables = match unwound {
            Ok(None) => return UnwoundStack { addresses, end: None },
            Ok(Some(address)) if is_return_address(space, address) => FrameAddress::from_return_address(address),
            Ok(Some(_)) | Err(_) => None,
        };
        let Some(next) = by_tables.or_else(|| {
            known = before;
            let caller = find_caller(memory, stack, space, space.function_start(address), before.sp())?;
            known.set_ip(caller.return_address);
            known.set_sp(caller.stack_pointer);
            known.set_bp(caller.frame_pointer.unwrap_or(before.bp()));
            FrameAddress::from_return_address(caller.return_address)
        }) else {
            let end = match space.why_not_loaded(address) {
                _ if stack.is_exhausted() => format!("beyond {} KiB of the stack", MAX_STACK_BYTES >> 10),
                Some(why) => why,
                None => "the frame pointer is not known".to_owned(),
            };
            return UnwoundStack { addresses, end: Some(end) };
        };
        frame = next;
    }
}

fn is_return_address(space: &ProcessSpace, address: u64) -> bool {
    address.checked_sub(1).is_some_and(|address| space.is_code(address))
}
