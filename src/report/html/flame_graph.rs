//! Draws the stacks of stuck threads as a flame graph: processes below, above each function those that it called, each as wide
//! as the time for which threads were stuck there.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::report::folded::FoldedStacks;
use crate::report::formatting::duration;

/// Frames of a stack: process, thread, and the most of a user and a kernel stack; a recording may have come from elsewhere.
const MAX_DEPTH: usize = 131;
/// Share of the width below which a frame is not drawn.
const MIN_SHARE: f64 = 0.002;
const ROW_PIXELS: usize = 20;

/// A function, or a process or thread.
#[derive(Default)]
struct Frame<'a> {
    milliseconds: f64,
    callees: BTreeMap<&'a str, Frame<'a>>,
}

/// A frame with its place, as shares of the width.
struct FrameBox<'a> {
    name: &'a str,
    milliseconds: f64,
    depth: usize,
    left: f64,
    width: f64,
}

/// The section of the page; nothing without stacks.
pub fn section(stacks: &FoldedStacks) -> Markup {
    let mut root = Frame::default();
    for (stack, milliseconds) in stacks.iter() {
        root.milliseconds += milliseconds;
        let mut frame = &mut root;
        for name in stack.split(';').take(MAX_DEPTH) {
            frame = frame.callees.entry(name).or_default();
            frame.milliseconds += milliseconds;
        }
    }
    if root.milliseconds <= 0.0 {
        return html! {};
    }
    let mut boxes = Vec::new();
    root.place(0, 0.0, root.milliseconds, &mut boxes);
    let rows = boxes.iter().map(|drawn| drawn.depth + 1).max().unwrap_or(0);
    html! {
        section aria-labelledby="stacks" {
            h2 id="stacks" { "Where stuck threads stood" }
            p.note {
                "Stacks of threads in D, and of threads that held or waited for locks, in thread time: "
                (duration(root.milliseconds / 1000.0)) " in all. Processes and threads are below, then functions of the program, then those of the kernel (_[k]); the function in which a thread slept is on top."
            }
            div.flame style=(format!("height:{}px", rows * ROW_PIXELS)) {
                @for drawn in &boxes { (drawn.render(root.milliseconds)) }
            }
        }
    }
}

impl<'a> Frame<'a> {
    /// Adds the boxes of what it called, from its left edge on.
    fn place(&self, depth: usize, left: f64, whole: f64, boxes: &mut Vec<FrameBox<'a>>) {
        let mut left = left;
        for (&name, callee) in &self.callees {
            let width = callee.milliseconds / whole;
            if width >= MIN_SHARE {
                boxes.push(FrameBox { name, milliseconds: callee.milliseconds, depth, left, width });
                callee.place(depth + 1, left, whole, boxes);
            }
            left += width;
        }
    }
}

impl FrameBox<'_> {
    fn render(&self, whole: f64) -> Markup {
        let class = match self.depth {
            0 | 1 => "task",
            depth if depth % 2 == 0 => "even",
            _ => "odd",
        };
        let (left, width, bottom) = (self.left * 100.0, self.width * 100.0, self.depth * ROW_PIXELS);
        let share = self.milliseconds / whole * 100.0;
        let words = format!("{}: {}, {share:.1} %", self.name, duration(self.milliseconds / 1000.0));
        html! {
            span class=(class) style=(format!("left:{left:.3}%;width:{width:.3}%;bottom:{bottom}px")) title=(words) { (self.name) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_as_wide_as_its_part_of_the_time() {
        let stacks = FoldedStacks::from_lines(&[("db;db;read;wait", 300.0), ("db;db;write", 100.0), ("x;x;<b>", 0.5)]);
        let page = section(&stacks).into_string();
        assert!(page.contains("left:0.000%;width:99.875%;bottom:0px\" title=\"db: 400 ms, 99.9 %\">db<"), "{page}");
        assert!(page.contains("left:74.906%;width:24.969%;bottom:40px") && page.contains(">write<"), "{page}");
        assert!(page.contains("bottom:60px") && page.contains("height:80px"), "{page}");
        assert!(!page.contains("<b>"), "too narrow: {page}");
        assert!(section(&FoldedStacks::default()).into_string().is_empty());
    }
}
