//! Where the bytes of a recording go: each table's runs and each column's bits, read by docs/recording-format.md and not by
//! the code under test.

use std::collections::BTreeMap;

use crate::payload::unpacked;
use crate::places::{HEADER, frames};
use crate::varint::take_varint;

const NAMES: u64 = 1;
const FORMS: u64 = 62;
const BITS: u64 = 63;

/// Bits by what they are for: of key frames, of deltas.
#[derive(Default)]
pub struct Account {
    samples: u64,
    entries: BTreeMap<String, [u64; 2]>,
}

/// Table and role, then the columns' forms: how, and the most or the order.
type Forms = BTreeMap<(u64, u64), BTreeMap<u64, (u64, u64)>>;

impl Account {
    pub fn of(recording: &[u8]) -> Account {
        let mut account = Account::default();
        // What each frame of the group said, by its distance.
        let mut group: BTreeMap<u16, Forms> = BTreeMap::new();
        for place in frames(recording) {
            let (key, distance, stored) = (place.is_key(), place.distance, place.length - HEADER);
            if !place.is_sample() {
                account.add(false, format!("frames of kind {}", place.kind), 8 * place.length as u64);
                continue;
            }
            account.samples += 1;
            account.add(key, "frame headers".into(), 8 * HEADER as u64);
            let parent = if distance.is_multiple_of(8) { distance.saturating_sub(8) } else { distance - 1 };
            let forms = if key { Forms::new() } else { group[&parent].clone() };
            let raw = unpacked(place.flags, &recording[place.at + HEADER..place.end()]);
            let (forms, apart) = account.sample(key, distance, &raw, forms);
            group.insert(distance, forms);
            account.add(key, "all but the bits, as stored".into(), 8 * stored as u64 - apart);
        }
        account
    }

    fn add(&mut self, key: bool, what: String, bits: u64) {
        self.entries.entry(what).or_default()[usize::from(!key)] += bits;
    }

    /// Adds a payload; what holds after it, and how many bits its bits are, those that fill the last byte included.
    fn sample(&mut self, key: bool, distance: u16, mut raw: &[u8], mut forms: Forms) -> (Forms, u64) {
        let mut sections = Vec::new();
        while !raw.is_empty() {
            let (number, length) = (take_varint(&mut raw), take_varint(&mut raw));
            let (section, rest) = raw.split_at(length as usize);
            raw = rest;
            sections.push((number, section));
            let what = match number {
                BITS => continue,
                NAMES => "names".into(),
                FORMS => "forms".into(),
                table => format!("runs of {}", name(table)),
            };
            self.add(key, format!("  before zstd: {what}"), 8 * (section.len() as u64 + 2));
        }
        for &(_, section) in sections.iter().filter(|(number, _)| *number == FORMS) {
            read_forms(section, &mut forms);
        }
        let bits = sections.iter().find(|(number, _)| *number == BITS).map(|(_, section)| *section).unwrap_or_default();
        let mut source = Source { bytes: bits, at: 0 };
        for &(table, mut section) in sections.iter().filter(|(number, _)| ![NAMES, FORMS, BITS].contains(number)) {
            let mut rows = [0; 4];
            for _ in 0..take_varint(&mut section) {
                let run = take_varint(&mut section);
                rows[(run & 3) as usize] += run >> 2;
            }
            let changed = u64::from(distance.is_multiple_of(8));
            for (role, count) in [(changed, rows[1]), (2, rows[2].min(1)), (3, rows[2].saturating_sub(1))] {
                for (column, &(code, how)) in forms.get(&(table, role)).into_iter().flatten() {
                    let before = source.at;
                    (0..count).for_each(|_| source.pass(code, how));
                    let role = ["near", "far", "first", "further"][role as usize];
                    self.add(key, format!("{}, {role}, column {column}", name(table)), source.at - before);
                }
            }
        }
        let (section, length) = (bits.len() as u64 * 8, bits.len() as u64);
        assert!(section - source.at < 8, "{} of {section} bits", source.at);
        (forms, section + if length == 0 { 0 } else { 8 * (1 + varint_length(length)) })
    }

    /// The largest first, in bytes a sample; what is below a byte is put together.
    pub fn print(&self) {
        let each = |bits: u64| bits as f64 / 8.0 / self.samples.max(1) as f64;
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(_, [key, delta])| std::cmp::Reverse(key + delta));
        println!("{:>10} {:>10}   bytes a sample, of {} samples", "key frames", "deltas", self.samples);
        let (mut keys, mut deltas) = (0, 0);
        for (what, &[key, delta]) in entries {
            if each(key + delta) < 1.0 {
                (keys, deltas) = (keys + key, deltas + delta);
            } else {
                println!("{:>10.1} {:>10.1}   {what}", each(key), each(delta));
            }
        }
        println!("{:>10.1} {:>10.1}   all else", each(keys), each(deltas));
    }
}

fn read_forms(mut section: &[u8], forms: &mut Forms) {
    while !section.is_empty() {
        let (place, count) = (take_varint(&mut section), take_varint(&mut section));
        let columns = forms.entry((place >> 2, place & 3)).or_default();
        let mut column = 0;
        for _ in 0..count {
            let (head, bits) = (take_varint(&mut section), take_varint(&mut section));
            column += head >> 3;
            let code = head & 3;
            if code == 1 || code == 2 {
                columns.insert(column, (code, bits & 63));
            } else {
                let (_least, most) = (take_varint(&mut section), take_varint(&mut section));
                columns.insert(column, (code, most));
            }
        }
    }
}

struct Source<'a> {
    bytes: &'a [u8],
    at: u64,
}

impl Source<'_> {
    fn bit(&mut self) -> u64 {
        self.at += 1;
        u64::from(self.bytes[((self.at - 1) / 8) as usize] >> ((self.at - 1) % 8) & 1)
    }

    /// Passes over one number.
    fn pass(&mut self, code: u64, how: u64) {
        let mut order = how;
        if code == 0 || code == 3 {
            let count = u128::from(how) + 1;
            let width = 127 - count.leading_zeros();
            let mut value: u128 = (0..width).map(|at| u128::from(self.bit()) << at).sum();
            let short = (2 << width) - count;
            if value >= short {
                value = (value << 1 | u128::from(self.bit())) - short;
            }
            if code == 0 || value < u128::from(how) {
                return;
            }
            order = u64::from(64 - how.leading_zeros()).min(63);
        }
        let zeros = std::iter::repeat_with(|| self.bit()).take_while(|&bit| bit == 0).count();
        self.at += zeros as u64 + order;
    }
}

fn varint_length(value: u64) -> u64 {
    u64::from((64 - value.leading_zeros()).max(1).div_ceil(7))
}

fn name(table: u64) -> String {
    let name = match table {
        2 => "singles",
        3 => "CPUs",
        4 => "disks",
        5 => "interfaces",
        7 => "cgroups",
        8 => "processes",
        9 => "threads",
        10 => "groups",
        11 => "thread waits",
        12 => "blocked threads",
        13 => "sub-samples",
        14 => "group waits",
        15 => "softnet",
        other => return format!("table {other}"),
    };
    name.to_owned()
}
