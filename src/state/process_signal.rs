//! The signals that can be sent to a process.

/// A signal that can be sent to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessSignal {
    Terminate,
    Interrupt,
    Hangup,
    Quit,
    Abort,
    Kill,
    Stop,
    Continue,
    User1,
    User2,
}

impl ProcessSignal {
    /// The signals in the order of the list; the first one is proposed.
    pub const ALL: [ProcessSignal; 10] = [
        ProcessSignal::Terminate,
        ProcessSignal::Interrupt,
        ProcessSignal::Hangup,
        ProcessSignal::Quit,
        ProcessSignal::Abort,
        ProcessSignal::Kill,
        ProcessSignal::Stop,
        ProcessSignal::Continue,
        ProcessSignal::User1,
        ProcessSignal::User2,
    ];

    /// As in signal(7).
    pub fn name(self) -> &'static str {
        match self {
            ProcessSignal::Terminate => "SIGTERM",
            ProcessSignal::Interrupt => "SIGINT",
            ProcessSignal::Hangup => "SIGHUP",
            ProcessSignal::Quit => "SIGQUIT",
            ProcessSignal::Abort => "SIGABRT",
            ProcessSignal::Kill => "SIGKILL",
            ProcessSignal::Stop => "SIGSTOP",
            ProcessSignal::Continue => "SIGCONT",
            ProcessSignal::User1 => "SIGUSR1",
            ProcessSignal::User2 => "SIGUSR2",
        }
    }

    /// The default action, and what it is used for.
    pub fn meaning(self) -> &'static str {
        match self {
            ProcessSignal::Terminate => "asks it to end",
            ProcessSignal::Interrupt => "as Ctrl-C",
            ProcessSignal::Hangup => "ends it; many daemons read their configuration again",
            ProcessSignal::Quit => "ends it with a core dump; a JVM prints its threads",
            ProcessSignal::Abort => "ends it with a core dump",
            ProcessSignal::Kill => "ends it at once, without cleanup",
            ProcessSignal::Stop => "stops it until SIGCONT",
            ProcessSignal::Continue => "continues it after SIGSTOP",
            ProcessSignal::User1 | ProcessSignal::User2 => "ends it, unless the program has a use of its own for it",
        }
    }
}
