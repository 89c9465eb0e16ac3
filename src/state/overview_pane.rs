//! The panes of the overview, one of which may take the whole body.

/// A pane, in the order in which Tab goes through them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverviewPane {
    #[default]
    Cpu,
    Waits,
    Cores,
    System,
    Disks,
    Network,
    Tasks,
}

impl OverviewPane {
    pub const ALL: [OverviewPane; 7] = [
        OverviewPane::Cpu,
        OverviewPane::Waits,
        OverviewPane::Cores,
        OverviewPane::System,
        OverviewPane::Disks,
        OverviewPane::Network,
        OverviewPane::Tasks,
    ];

    pub fn next(self) -> OverviewPane {
        OverviewPane::ALL.get(self as usize + 1).copied().unwrap_or_default()
    }

    pub fn previous(self) -> OverviewPane {
        OverviewPane::ALL.get((self as usize).wrapping_sub(1)).or(OverviewPane::ALL.last()).copied().unwrap_or_default()
    }
}
