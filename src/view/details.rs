//! The details page of an item: lines and graphs that can be scrolled.

mod baselines;
mod cgroup;
mod cgroups;
mod cross_checks;
mod device;
mod entry;
pub mod finding;
mod finding_items;
mod page;
mod remote_host;
mod stacks;
mod table;
mod task;

use super::pane::Pane;
use super::theme::StyleRole;
use crate::findings::{Evaluation, Finding};
use crate::safe;
use crate::state::{Details, Item, PageItems, State};
use entry::{Entry, height};
use page::Page;

/// Width of a page from which it has two columns, if one is too high.
const MIN_WIDTH_FOR_COLUMNS: u16 = 160;

/// Blank cells between two columns.
const COLUMN_GAP: u16 = 3;

/// A page for a size, and the width of its columns.
struct PageLayout {
    page: Page,
    column_width: u16,
}

impl PageLayout {
    fn new(state: &State, evaluation: &Evaluation, details: &Details, width: u16, height: u16) -> PageLayout {
        // The last column is that of the scroll bar.
        let width = width.saturating_sub(1);
        let page = build_page(state, evaluation, details, width);
        if width < MIN_WIDTH_FOR_COLUMNS || page.height() <= usize::from(height) {
            return PageLayout { page, column_width: width };
        }
        let column_width = (width - COLUMN_GAP) / 2;
        PageLayout { page: build_page(state, evaluation, details, column_width), column_width }
    }

    fn columns(&self, width: u16) -> Vec<&[Entry]> {
        if self.column_width < width / 2 { self.page.columns().into() } else { vec![&self.page.entries] }
    }

    /// Maximum scroll offset.
    fn max_scroll(&self, width: u16, rows: u16) -> usize {
        let highest = self.columns(width).into_iter().map(height).max();
        highest.unwrap_or(0).saturating_sub(usize::from(rows))
    }
}

/// Draws the visible part of the page.
pub fn draw(state: &State, evaluation: &Evaluation, details: &Details, pane: &mut Pane) {
    let (width, height) = (pane.width(), pane.height());
    let layout = PageLayout::new(state, evaluation, details, width, height);
    let most = layout.max_scroll(width, height);
    let top = details.scroll_offset.min(most);
    let labels = layout.page.label_width();
    pane.scroll_bar(most + usize::from(height), top, usize::from(height));
    let mut x = 0;
    for entries in layout.columns(width) {
        draw_entries(entries, labels, top, details.selected.as_ref(), &mut pane.subarea(x, 0, layout.column_width, u16::MAX));
        x += layout.column_width + COLUMN_GAP;
    }
    if most > 0 {
        let words = if top < most { safe!(" ↓ {} more ", most - top) } else { " end ".into() };
        pane.subarea(0, 0, width - 1, u16::MAX).line_right(height.saturating_sub(1), (&words, StyleRole::Key));
    }
}

/// Draws entries below each other, from line `top` on.
fn draw_entries(entries: &[Entry], labels: u16, top: usize, selected: Option<&Item>, pane: &mut Pane) {
    let (mut begins, mut y) = (0, 0);
    for entry in entries {
        let (passed, lines) = (top.saturating_sub(begins), entry.height());
        begins += lines;
        if passed >= lines {
            continue;
        }
        if y >= pane.height() {
            break;
        }
        let rows = u16::try_from(lines - passed).unwrap_or(u16::MAX);
        let is_cut = passed > 0 || rows > pane.height() - y;
        match entry {
            Entry::Plot(plot, _) if is_cut => draw_cut(entry, plot.height, pane, y, passed),
            Entry::States(..) if is_cut => draw_cut(entry, entry.height() as u16, pane, y, passed),
            _ => entry.draw(pane, y, labels, passed, selected),
        }
        y = y.saturating_add(rows);
    }
}

/// Draws the visible rows of a graph. Drawn into them it would be lower than its labels say.
fn draw_cut(entry: &Entry, height: u16, pane: &mut Pane, y: u16, passed: usize) {
    let passed = u16::try_from(passed).unwrap_or(u16::MAX);
    pane.draw_cut(y, passed, height, |whole| entry.draw(whole, 1, 0, 0, None));
}

/// Draws as much of a page as fits; `fill` writes it. A sign says that there is more.
pub fn draw_beginning(pane: &mut Pane, fill: impl FnOnce(&mut Page)) {
    let mut page = Page::new(pane.width());
    fill(&mut page);
    let is_cut = page.height() > usize::from(pane.height());
    let (labels, height) = (page.label_width(), pane.height() - u16::from(is_cut));
    let mut y = 0;
    for entry in &page.entries {
        let below = y + u16::try_from(entry.height()).unwrap_or(u16::MAX);
        if below > height {
            break;
        }
        entry.draw(pane, y, labels, 0, None);
        y = below;
    }
    if is_cut {
        pane.line_right(height, ("↓ Enter: more", StyleRole::Key));
    }
}

/// Maximum scroll offset of the page for this size.
pub fn max_scroll(state: &State, evaluation: &Evaluation, details: &Details, width: u16, height: u16) -> usize {
    PageLayout::new(state, evaluation, details, width, height).max_scroll(width, height)
}

/// The items that the page of this size lists.
pub fn page_items(state: &State, evaluation: &Evaluation, details: &Details, width: u16, height: u16) -> PageItems {
    let layout = PageLayout::new(state, evaluation, details, width, height);
    let mut lines = Vec::new();
    for entries in layout.columns(width) {
        let mut begins = 0;
        for entry in entries {
            if let Entry::Table(table) = entry {
                lines.extend(table.items().map(|(line, item)| (begins + line, item.clone())));
            }
            begins += entry.height();
        }
    }
    PageItems { lines, height: usize::from(height) }
}

fn build_page(state: &State, evaluation: &Evaluation, details: &Details, width: u16) -> Page {
    let mut page = Page::new(width);
    match &details.item {
        Item::Finding { kind, subject, since } => {
            let ended: Vec<&Finding> = state.finding_history.ended_before(evaluation.interval.at()).collect();
            // If this finding is gone, an active one of the same kind and subject replaces it.
            let same = |finding: &&Finding| finding.kind == *kind && finding.subject == *subject;
            let exact = |finding: &&Finding| same(finding) && finding.since == *since;
            let found = (evaluation.active.iter().find(exact))
                .or_else(|| ended.iter().copied().find(exact))
                .or_else(|| evaluation.active.iter().find(same));
            match found {
                Some(finding) => finding::page(state, evaluation, finding, &mut page),
                None => page.line(0, "this finding is not active at the time displayed".into(), StyleRole::Dim),
            }
        }
        Item::Process(id) => task::process(state, evaluation, *id, &mut page),
        Item::Thread(id) => task::thread(state, evaluation, *id, &mut page),
        Item::WaitClass(class) => task::wait_class(evaluation, *class, &mut page),
        Item::Disk(id) => device::disk(state, evaluation, *id, &mut page),
        Item::Nic(id) => device::nic(state, evaluation, id, &mut page),
        Item::Cgroup(id) => cgroup::page(state, evaluation, id, &mut page),
        Item::RemoteHost(address) => remote_host::remote_host(state, evaluation, *address, &mut page),
        Item::Cpu(id) => device::cpu(state, evaluation, *id, &mut page),
    }
    if page.entries.is_empty() {
        page.line(0, "it does not exist at the time displayed".into(), StyleRole::Dim);
    }
    page
}
