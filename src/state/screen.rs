//! The screens, and the columns that their tables can be sorted by.

/// The six screens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Screen {
    #[default]
    Overview,
    Cpu,
    Disk,
    Network,
    Tasks,
    Findings,
}

impl Screen {
    pub const ALL: [Screen; 6] =
        [Screen::Overview, Screen::Cpu, Screen::Disk, Screen::Network, Screen::Tasks, Screen::Findings];

    /// As the key line says it.
    pub fn word(self) -> &'static str {
        match self {
            Screen::Overview => "overview",
            Screen::Cpu => "cpu",
            Screen::Disk => "disk",
            Screen::Network => "net",
            Screen::Tasks => "tasks",
            Screen::Findings => "findings",
        }
    }

    /// The key that shows it.
    pub fn digit(self) -> u8 {
        self as u8 + 1
    }

    pub fn next(self) -> Screen {
        Screen::ALL.get(self as usize + 1).copied().unwrap_or_default()
    }

    pub fn previous(self) -> Screen {
        Screen::ALL.get((self as usize).wrapping_sub(1)).copied().unwrap_or(Screen::Findings)
    }

    /// What its table can be sorted by, the usual order first; empty where there is nothing to sort.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Screen::Overview | Screen::Findings => &[],
            Screen::Cpu => &[Column::Busy, Column::User, Column::System, Column::Softirq, Column::Steal, Column::Name],
            Screen::Disk => &[Column::Name, Column::Rate, Column::Await, Column::Queue, Column::Busy],
            Screen::Network => &[Column::Name, Column::Read, Column::Write, Column::Busy, Column::Saturation],
            Screen::Tasks => &[
                Column::Matters,
                Column::Cpu,
                Column::RunQueue,
                Column::Disk,
                Column::Lock,
                Column::Resident,
                Column::Read,
                Column::Write,
                Column::Threads,
                Column::Owner,
                Column::Pid,
                Column::Name,
            ],
        }
    }
}

/// What the rows of a table can be ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Column {
    /// Blocked + running: what matters first
    Matters,
    Pid,
    Threads,
    Owner,
    Cpu,
    RunQueue,
    Disk,
    Lock,
    Resident,
    Read,
    Write,
    /// Command, device, interface, CPU number
    Name,
    Busy,
    User,
    System,
    Softirq,
    Steal,
    Rate,
    Await,
    Queue,
    Saturation,
}

impl Column {
    /// As the screen says what it is sorted by.
    pub fn word(self) -> &'static str {
        match self {
            Column::Matters => "what matters",
            Column::Pid => "pid",
            Column::Threads => "threads",
            Column::Owner => "user",
            Column::Cpu => "%CPU",
            Column::RunQueue => "run queue",
            Column::Disk => "disk",
            Column::Lock => "lock",
            Column::Resident => "memory",
            Column::Read => "read",
            Column::Write => "write",
            Column::Name => "name",
            Column::Busy => "busy",
            Column::User => "%usr",
            Column::System => "%sys",
            Column::Softirq => "%soft",
            Column::Steal => "%stl",
            Column::Rate => "rate",
            Column::Await => "await",
            Column::Queue => "queue",
            Column::Saturation => "Sat",
        }
    }

    /// Whether the usual order is from the smallest to the largest.
    pub fn ascending(self) -> bool {
        matches!(self, Column::Pid | Column::Owner | Column::Name)
    }
}
