//! What `y` and `Y` copy: the selected row as it is drawn, the sentence of a finding, a command line.

use super::drawn_frame;
use super::safe_text::SafeText;
use super::screen_text::row_text;
use crate::findings::Finding;
use crate::state::layout::ScreenLayout;
use crate::state::{ClickTarget, Item, State};

/// The sentence of the open or selected finding, or the text of the selected row, or of the open page. `None`: nothing is
/// selected.
pub fn copied_text(state: &State) -> Option<String> {
    let item = state.open_or_selected_item();
    if let Some(finding) = item.as_ref().and_then(|item| finding(state, item)) {
        return Some(SafeText::sanitize(finding.sentence.clone()).as_str().to_owned());
    }
    let (buffer, hit_areas) = drawn_frame(state);
    let layout = ScreenLayout::new(state);
    let area = if state.details.is_some() {
        let mut body = buffer.area;
        (body.y, body.height) = (layout.body_top, layout.body_rows);
        // The last column is that of the scroll bar.
        body.width = body.width.saturating_sub(1);
        body
    } else {
        let is_selected = |target: &ClickTarget| match target {
            ClickTarget::Row(row) => *row == state.cursor().selected,
            ClickTarget::Item(drawn) => Some(drawn) == item.as_ref(),
            _ => false,
        };
        hit_areas.iter().find(|hit| is_selected(&hit.target))?.area
    };
    let rows = area.rows().map(|row| row_text(&buffer, row).trim_end().to_owned());
    let rows: Vec<String> = rows.skip_while(String::is_empty).collect();
    Some(rows.join("\n").trim_end().to_owned()).filter(|text| !text.is_empty())
}

/// The command line of the task, or the next steps of the finding, that is open or selected.
pub fn command_text(state: &State) -> Option<String> {
    let item = state.open_or_selected_item()?;
    if let Some(finding) = finding(state, &item) {
        let steps: Vec<SafeText> = finding.next.iter().map(|step| SafeText::sanitize(step.clone())).collect();
        let lines: Vec<&str> = steps.iter().map(SafeText::as_str).collect();
        return Some(lines.join("\n")).filter(|text| !text.is_empty());
    }
    let pid = match item {
        Item::Process(id) => id.pid,
        Item::Thread(id) => id.pid,
        _ => return None,
    };
    let tasks = state.current()?.interval.newer.tasks.as_ref().ok()?;
    let line = tasks.process(pid)?.facts.cmdline.as_ref().ok()?;
    Some(shell_command(line.as_bytes())).filter(|text| !text.is_empty())
}

/// The arguments of a process, which end with NUL bytes, each as one word of a shell: a process may name itself `x; reboot`.
fn shell_command(arguments: &[u8]) -> String {
    let arguments = arguments.strip_suffix(b"\0").unwrap_or(arguments);
    let words: Vec<SafeText> = arguments.split(|&byte| byte == 0).map(SafeText::from_bytes).collect();
    let words = words.iter().map(SafeText::as_str).skip_while(|_| arguments.is_empty());
    // Only a NUL byte cannot be quoted, and they divide the arguments.
    shlex::try_join(words).unwrap_or_default()
}

fn finding<'a>(state: &'a State, item: &Item) -> Option<&'a Finding> {
    let evaluation = state.current()?;
    let ended = state.finding_history.ended_before(evaluation.interval.at());
    evaluation.active.iter().chain(ended).find(|finding| Item::from_finding(finding) == *item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_argument_stays_one_word_of_the_shell() {
        assert_eq!(shell_command(b"sleep\x001000\0"), "sleep 1000");
        let hostile = ["x; reboot", "$(halt)", "it's", "", "a\\b"];
        assert_eq!(shlex::split(&shell_command(hostile.join("\0").as_bytes())), Some(hostile.map(str::to_owned).to_vec()));
        assert_eq!([shell_command(b""), shell_command(b"\0")], [String::new(), String::new()]);
        assert!(!shell_command(b"a\x1b[31m").contains('\x1b'));
    }
}
