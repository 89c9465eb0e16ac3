//! Wait channels that are hidden from an unprivileged user.

use super::*;
use crate::interval::task::visible_wait_class;

#[test]
fn an_unread_wait_channel_is_hidden_if_reading_it_would_show_nothing() {
    let other = process(50, 1, 0);
    let own = Process { uid: 1000, ..Process::clone(&other) };
    let kernel = Process { kernel_thread: true, ..Process::clone(&other) };
    let mut asleep = Thread { state: TaskState::Sleeping, ..thread(50, 1, 0) };
    asleep.wait.wchan = Err(Absent::NotRead);
    let class = |sees_other_users, process| {
        let mut host = Host::clone(&host());
        (host.privilege.effective_uid, host.privilege.has_cap_sys_ptrace) = (1000, sees_other_users);
        visible_wait_class(&host, process, &asleep)
    };
    let classes = [class(false, &other), class(false, &own), class(false, &kernel), class(true, &other)];
    assert_eq!(classes, [WaitClass::Hidden, WaitClass::Other, WaitClass::Other, WaitClass::Other]);
}
