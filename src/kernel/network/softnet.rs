//! Parses /proc/net/softnet_stat: a line for each online CPU, hexadecimal columns without names, more on newer kernels.

use crate::ids::CpuId;
use crate::kernel::fields::{lines, words};
use crate::sample::network::Softnet;
use crate::sample::{Absent, Reading};
use crate::units::Counter;

/// Parses all lines; `None` if one is damaged, since a line's CPU may follow from its position.
pub fn parse_softnet(bytes: &[u8]) -> Reading<Vec<Softnet>> {
    // The last number of a truncated line may be truncated.
    if bytes.last() != Some(&b'\n') {
        return Err(Absent::Malformed);
    }
    let list: Option<Vec<Softnet>> = lines(bytes).map(parse_line).collect();
    list.filter(|list| !list.is_empty()).ok_or(Absent::Malformed)
}

fn parse_line(text: &[u8]) -> Option<Softnet> {
    let columns: Vec<u32> = words(text).map(parse_hex32).collect::<Option<_>>()?;
    let counter = |at: usize| columns.get(at).map(|&count| Counter(u64::from(count)));
    Some(Softnet {
        // 4.x kernels have 9 to 11 columns; newer ones also the backlog length and the CPU number.
        cpu: columns.get(12).copied().map(CpuId),
        processed: counter(0)?,
        dropped: counter(1)?,
        time_squeeze: counter(2)?,
        received_rps: counter(9),
        flow_limited: counter(10),
    })
}

/// Always eight digits (`%08x`).
fn parse_hex32(word: &[u8]) -> Option<u32> {
    let digits = word.len() == 8 && word.iter().all(u8::is_ascii_hexdigit);
    u32::from_str_radix(std::str::from_utf8(word).ok().filter(|_| digits)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &[u8] = b"0002a46d 0000000c 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000007 00000002 00000000 00000000 00000000 00000000\n\
0002bce5 00000000 000000ff 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000003 00000000 00000000\n";

    #[test]
    fn a_new_kernel_has_a_column_with_the_cpu() {
        let lines = parse_softnet(NEW).unwrap();
        let first = Softnet {
            cpu: Some(CpuId(0)),
            processed: Counter(0x2a46d),
            dropped: Counter(12),
            time_squeeze: Counter(1),
            received_rps: Some(Counter(7)),
            flow_limited: Some(Counter(2)),
        };
        assert_eq!(lines[0], first);
        assert_eq!((lines[1].cpu, lines[1].time_squeeze), (Some(CpuId(3)), Counter(255)));
    }

    #[test]
    fn an_old_kernel_has_no_column_with_the_cpu() {
        let old = b"00000010 00000001 00000002 00000000 00000000 00000000 00000000 00000000 00000000\n";
        let lines = parse_softnet(old).unwrap();
        assert_eq!((lines[0].cpu, lines[0].received_rps, lines[0].dropped), (None, None, Counter(1)));
    }

    #[test]
    fn a_truncated_file_is_absent() {
        for length in 0..NEW.len() {
            match parse_softnet(&NEW[..length]) {
                Err(why) => assert_eq!(why, Absent::Malformed),
                // Whole lines only.
                Ok(lines) => assert_eq!((lines.len(), NEW[length - 1]), (1, b'\n')),
            }
        }
    }

    #[test]
    fn a_column_that_is_no_number_is_absent() {
        for damage in
            [&b"0002a46d -0000001 00000001\n"[..], b"zzz\n", b"\n", b"0002a46d 00000000\n", b"+002a46d 00000000 00000000\n"]
        {
            assert_eq!(parse_softnet(damage), Err(Absent::Malformed), "{}", damage.escape_ascii());
        }
    }
}
