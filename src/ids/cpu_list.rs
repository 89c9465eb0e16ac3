//! Lists of CPUs as the kernel writes them: `0-3,8` (Cpus_allowed_list, cpuset.cpus, /sys/devices/system/cpu/possible).

use std::ops::RangeInclusive;

/// The ranges of a list, in its order. A part that is no range of numbers is left out.
pub fn parse_cpu_list(list: &[u8]) -> impl Iterator<Item = RangeInclusive<u32>> {
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<u32>().ok();
    list.trim_ascii().split(|&byte| byte == b',').filter_map(move |part| {
        let mut ends = part.splitn(2, |&byte| byte == b'-');
        let first = ends.next().and_then(number)?;
        let last = ends.next().map_or(Some(first), number)?;
        (first <= last).then_some(first..=last)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_no_ranges_are_left_out() {
        let parse = |list: &[u8]| parse_cpu_list(list).collect::<Vec<_>>();
        assert_eq!(parse(b"0-3,8,10-11\n"), [0..=3, 8..=8, 10..=11]);
        assert_eq!(parse(b"\n"), []);
        assert_eq!(parse(b"5-3,x,2-,7-y,,9-4294967295"), [9..=u32::MAX]);
    }
}
