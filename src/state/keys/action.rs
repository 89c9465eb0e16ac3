//! What keys do, and the words of the palette for it.

use crate::state::screen::Screen;

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Show(Screen),
    /// The next pane; where there are none the next screen
    NextPane,
    PreviousPane,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    OpenDetails,
    Back,
    Filter,
    NextSort,
    PreviousSort,
    ReverseSort,
    /// Moves the list, so that it shows what is left of it
    MoveLeft,
    MoveRight,
    ToggleThreads,
    ToggleTree,
    ToggleBranch,
    ToggleWaitClasses,
    ToggleCgroups,
    ToggleRemoteHosts,
    ToggleCpuOrder,
    ZoomPane,
    GoToFindingStart,
    TogglePause,
    SampleBack,
    SampleForward,
    MinuteBack,
    MinuteForward,
    ShorterGraphs,
    LongerGraphs,
    WholeGraphs,
    ToggleSpan,
    JumpToTime,
    NextFinding,
    PreviousFinding,
    Save,
    ToggleRecording,
    Mark,
    NextMark,
    Plus,
    Minus,
    OpenPalette,
    OpenSettings,
    CopySelection,
    CopyCommand,
    SaveScreen,
    ChooseColumns,
    SendSignal,
    Help,
    Redraw,
    Suspend,
    Quit,
}

impl Action {
    /// Whether it changes which rows a list has, or their order.
    pub(in crate::state) fn changes_list(self) -> bool {
        matches!(
            self,
            Action::Filter
                | Action::NextSort
                | Action::PreviousSort
                | Action::ReverseSort
                | Action::ToggleThreads
                | Action::ToggleTree
                | Action::ToggleBranch
                | Action::ToggleWaitClasses
                | Action::ToggleCgroups
                | Action::ToggleRemoteHosts
                | Action::ToggleCpuOrder
        )
    }

    /// What the action does, for the palette; `None` for keys that move in what is displayed.
    pub fn label(self) -> Option<&'static str> {
        Some(match self {
            Action::NextPane => "next pane or screen",
            Action::PreviousPane => "previous pane or screen",
            Action::OpenDetails => "details of the selected row",
            Action::Filter => "filter rows",
            Action::NextSort => "sort by the next column",
            Action::PreviousSort => "sort by the previous column",
            Action::ReverseSort => "reverse the sort order",
            Action::MoveLeft => "scroll the list left",
            Action::MoveRight => "scroll the list right (hidden columns, long texts)",
            Action::ToggleThreads => "threads on/off",
            Action::ToggleTree => "tree of processes on/off",
            Action::ToggleBranch => "fold / unfold a branch of the tree",
            Action::ToggleWaitClasses => "group tasks by wait class on/off",
            Action::ToggleCgroups => "group tasks by container, pod, unit or cgroup on/off",
            Action::ToggleRemoteHosts => "remote hosts / interfaces",
            Action::ToggleCpuOrder => "CPUs by number / busiest first",
            Action::ZoomPane => "zoom the focused pane, and back",
            Action::GoToFindingStart => "go to the start of the finding",
            Action::TogglePause => "pause / resume",
            Action::SampleBack => "back by one sample",
            Action::SampleForward => "forward by one sample",
            Action::MinuteBack => "back by one minute",
            Action::MinuteForward => "forward by one minute",
            Action::ShorterGraphs => "graphs show a shorter time",
            Action::LongerGraphs => "graphs show a longer time",
            Action::WholeGraphs => "graphs show all of the time",
            Action::ToggleSpan => "begin / end a span of time: tables show its figures",
            Action::JumpToTime => "jump to a time",
            Action::NextFinding => "go to the next finding",
            Action::PreviousFinding => "go to the previous finding",
            Action::Save => "save the samples in memory to a file",
            Action::ToggleRecording => "start / stop recording",
            Action::Mark => "set a mark",
            Action::NextMark => "go to the next mark",
            Action::Plus => "longer interval; in a replay: faster",
            Action::Minus => "shorter interval; in a replay: slower",
            Action::CopySelection => "copy the row or the sentence",
            Action::CopyCommand => "copy the command line, or the next steps of a finding",
            Action::ChooseColumns => "choose the columns of the screen",
            Action::OpenSettings => "settings: theme, characters, interval, panes",
            Action::SendSignal => "send a signal to the selected process (--allow-signals)",
            Action::SaveScreen => "save the screen as text, ANSI and SVG",
            Action::Help => "help: all keys",
            Action::Suspend => "suspend",
            Action::Quit => "quit",
            // The palette lists the screens itself.
            Action::Show(_)
            | Action::Up
            | Action::Down
            | Action::PageUp
            | Action::PageDown
            | Action::First
            | Action::Last
            | Action::Back
            | Action::OpenPalette
            | Action::Redraw => return None,
        })
    }
}
