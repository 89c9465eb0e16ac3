//! Wait events of PostgreSQL: what a process says itself that it waits for (`my_wait_event_info`; `pg_stat_activity` shows it as
//! `wait_event_type` and `wait_event`).
//!
//! The highest byte is the class, the lowest 16 bits are the event. The numbers of light-weight locks up to 47 have had the same meaning in all
//! versions that export that variable (14 and later); those of the other events differ, so that only their class is used.

/// A wait event as it is in memory; 0: the process does not wait
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitEvent(pub u32);

/// What a wait event is about, as far as it decides what the wait counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEventClass {
    /// A light-weight lock of the server, that another process holds
    LightweightLock,
    /// A main loop that has nothing to do, a client that sends nothing, or a fixed time: the process is idle
    Idle,
    /// Reads or writes a file
    InputOutput,
    /// Any other, or none
    Other,
}

impl WaitEvent {
    /// The lock that the process holds that writes the log (WAL), until its data is on the device
    pub const WAL_WRITE_LOCK: WaitEvent = WaitEvent(0x0100_0008);

    pub fn class(self) -> WaitEventClass {
        match self.0 >> 24 {
            0x01 => WaitEventClass::LightweightLock,
            0x05 | 0x06 | 0x09 => WaitEventClass::Idle,
            0x0a => WaitEventClass::InputOutput,
            _ => WaitEventClass::Other,
        }
    }

    /// The name of the light-weight lock, as in `pg_stat_activity`; `None` if it is no lock, or one whose number differs between versions.
    pub fn lock_name(self) -> Option<&'static str> {
        if self.class() != WaitEventClass::LightweightLock {
            return None;
        }
        let number = self.0 & 0xffff;
        LOCK_NAMES.iter().find(|(of, _)| *of == number).map(|(_, name)| *name)
    }
}

/// src/backend/storage/lmgr/lwlocknames.txt of versions 14 to 16, src/include/storage/lwlocklist.h since: those that many processes wait for.
const LOCK_NAMES: [(u32, &str); 12] = [
    (2, "OidGen"),
    (3, "XidGen"),
    (4, "ProcArray"),
    (5, "SInvalRead"),
    (6, "SInvalWrite"),
    (7, "WALBufMapping"),
    (8, "WALWrite"),
    (9, "ControlFile"),
    (13, "MultiXactGen"),
    (17, "CheckpointerComm"),
    (18, "TwoPhaseState"),
    (32, "SyncRep"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_locks_have_names_and_only_those_with_the_same_number_in_all_versions() {
        assert_eq!(WaitEvent::WAL_WRITE_LOCK.lock_name(), Some("WALWrite"));
        assert_eq!(WaitEvent(0x0100_0004).lock_name(), Some("ProcArray"));
        // A tranche: ReplicationOriginState in version 15, another one in 17.
        assert_eq!(
            (WaitEvent(0x0100_0039).class(), WaitEvent(0x0100_0039).lock_name()),
            (WaitEventClass::LightweightLock, None)
        );
        assert_eq!(WaitEvent(0x0300_0008).lock_name(), None, "a lock of the database");
        assert_eq!(WaitEvent(0x0a00_0008).lock_name(), None, "input and output");
    }

    #[test]
    fn processes_that_wait_for_work_are_idle() {
        let class = |raw| WaitEvent(raw).class();
        assert_eq!([0x0500_0001, 0x0600_0000, 0x0900_0002].map(class), [WaitEventClass::Idle; 3]);
        assert_eq!([0, 0x0300_0001, 0x0800_0003, u32::MAX].map(class), [WaitEventClass::Other; 4]);
        assert_eq!(class(0x0a00_0042), WaitEventClass::InputOutput);
    }
}
