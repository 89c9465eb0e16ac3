//! Locks of Java programs that their virtual machine knows.

/// What kind of lock it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JavaLockKind {
    /// A monitor (`synchronized`): `JavaThread::_current_pending_monitor` of HotSpot
    Monitor,
    /// A lock of java.util.concurrent, such as ReentrantLock: an AbstractOwnableSynchronizer in `Thread.parkBlocker`
    Synchronizer,
}

/// One lock of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JavaLock {
    /// Of the ObjectMonitor, or of the object, which the garbage collector may move
    pub address: u64,
    pub kind: JavaLockKind,
}
