//! Hostile names in processes, devices and findings reach the terminal only as escaped text.

use proptest::prelude::*;
use stalltop::sample::task::TaskState;
use stalltop::view::{command_text, copied_text};

use crate::machine::{Machine, Thread};
use crate::scenes;
use crate::screen::{buffer, live, press};

/// A machine with this name wherever the text is not our own.
fn named(name: &'static [u8]) -> Machine {
    let mut machine = scenes::lock_convoy();
    machine.hostname = name;
    for worker in &mut machine.workers {
        worker.comm = name;
        worker.cmdline = name;
        worker.threads.truncate(3);
        for thread in &mut worker.threads {
            *thread = Thread { channel: name, state: TaskState::Blocked, ..thread.clone() };
        }
    }
    for device in &mut machine.devices {
        device.name = name;
    }
    for link in &mut machine.links {
        link.name = name;
    }
    for finding in &mut machine.findings {
        finding.sentence = String::from_utf8_lossy(name).into_owned();
        finding.next = vec![finding.sentence.clone()];
    }
    machine
}

fn is_harmless(symbol: &str) -> bool {
    !symbol.chars().any(|c| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{061c}' | '\u{feff}' | '\u{2028}' | '\u{2029}')
    })
}

fn check(name: Vec<u8>) {
    let name: &'static [u8] = Vec::leak(name);
    let machine = named(name);
    let mut state = live(&machine, (100, 30));
    for keys in [
        "1",
        "2",
        "3",
        "\n",
        "4",
        "\n",
        "5",
        "\n",
        "5t",
        ")",
        "\n",
        "5c",
        "))",
        "5))))))))",
        "\n",
        "5u",
        "\n",
        "6",
        "\n",
        "7",
        "\n",
    ] {
        press(&mut state, keys);
        for cell in &buffer(&state).content {
            assert!(is_harmless(cell.symbol()), "{:?} from {:?} on {keys:?}", cell.symbol(), name.escape_ascii().to_string());
        }
    }
}

#[test]
fn known_attacks() {
    check(b"\x1b]0;owned\x07\x1b[2J\x1b[31mred".to_vec());
    check("\u{202e}gpj.exe \u{2066}a\u{2069}\u{200b}\u{feff}\u{9b}31m".as_bytes().to_vec());
    check(b"\xff\xfe\x80\xc0\xaf\r\nnew line\ttab\x00\x7f".to_vec());
    check("日本語のプロセス e\u{301}\u{301}\u{301}\u{301} 👩‍👩‍👧".as_bytes().to_vec());
    check(Vec::new());
}

#[test]
fn what_is_copied_of_a_finding_has_no_control_characters() {
    let mut state = live(&named(b"a\r\nb\x1b]0;owned\x07\xe2\x80\xae"), (100, 30));
    press(&mut state, "6");
    for copied in [copied_text(&state), command_text(&state)].map(Option::unwrap) {
        assert!(copied.starts_with("a\\r\\nb") && is_harmless(&copied), "{copied:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_escaped(name in prop::collection::vec(any::<u8>(), 0..64)) {
        check(name);
    }
}
