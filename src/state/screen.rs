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
    pub fn label(self) -> &'static str {
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
    pub fn sort_columns(self) -> &'static [SortColumn] {
        match self {
            Screen::Overview | Screen::Findings => &[],
            Screen::Cpu => &[
                SortColumn::Busy,
                SortColumn::User,
                SortColumn::System,
                SortColumn::Softirq,
                SortColumn::Steal,
                SortColumn::Name,
            ],
            Screen::Disk => &[SortColumn::Name, SortColumn::Rate, SortColumn::Await, SortColumn::Queue, SortColumn::Busy],
            Screen::Network => {
                &[SortColumn::Name, SortColumn::Read, SortColumn::Write, SortColumn::Busy, SortColumn::Saturation]
            }
            Screen::Tasks => &[
                SortColumn::Activity,
                SortColumn::Cpu,
                SortColumn::RunQueue,
                SortColumn::Disk,
                SortColumn::Lock,
                SortColumn::Resident,
                SortColumn::Read,
                SortColumn::Write,
                SortColumn::Threads,
                SortColumn::Owner,
                SortColumn::Pid,
                SortColumn::Name,
            ],
        }
    }
}

/// What the rows of a table can be ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SortColumn {
    /// Blocked + running: what matters first
    Activity,
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

impl SortColumn {
    /// As the screen says what it is sorted by.
    pub fn label(self) -> &'static str {
        match self {
            SortColumn::Activity => "what matters",
            SortColumn::Pid => "pid",
            SortColumn::Threads => "threads",
            SortColumn::Owner => "user",
            SortColumn::Cpu => "%CPU",
            SortColumn::RunQueue => "run queue",
            SortColumn::Disk => "disk",
            SortColumn::Lock => "lock",
            SortColumn::Resident => "memory",
            SortColumn::Read => "read",
            SortColumn::Write => "write",
            SortColumn::Name => "name",
            SortColumn::Busy => "busy",
            SortColumn::User => "%usr",
            SortColumn::System => "%sys",
            SortColumn::Softirq => "%soft",
            SortColumn::Steal => "%stl",
            SortColumn::Rate => "rate",
            SortColumn::Await => "await",
            SortColumn::Queue => "queue",
            SortColumn::Saturation => "Sat",
        }
    }

    /// Whether the usual order is from the smallest to the largest.
    pub fn is_ascending(self) -> bool {
        matches!(self, SortColumn::Pid | SortColumn::Owner | SortColumn::Name)
    }
}
