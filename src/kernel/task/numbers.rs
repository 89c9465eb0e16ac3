//! Parses the decimal numbers of a task's files without allocating: stat is the longest text that is parsed for each task that ran.

/// A decimal number. A negative one (priority, tty) reads as 0; no such field is used.
pub fn parse_decimal(word: &[u8]) -> Option<u64> {
    if word.first() == Some(&b'-') {
        return Some(0);
    }
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |sum, &digit| match digit {
        b'0'..=b'9' => sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

/// The position of the last `)`, some two hundred bytes before the end. Searched in pieces of 32 bytes, which the compiler
/// compares at once.
pub fn find_last_parenthesis(text: &[u8]) -> Option<usize> {
    let is_bracket = |byte: &u8| *byte == b')';
    let (first, pieces) = text.as_rchunks::<32>();
    for (place, piece) in pieces.iter().enumerate().rev() {
        if piece.iter().fold(false, |found, byte| found | is_bracket(byte)) {
            return Some(first.len() + place * piece.len() + piece.iter().rposition(is_bracket)?);
        }
    }
    first.iter().rposition(is_bracket)
}

/// Any number of this many digits fits into 64 bits.
const SAFE_DIGITS: u32 = 19;

/// Parses decimal numbers, separated by spaces, into `room` and returns how many there were; negative ones in two's
/// complement (nice, field 19 of proc_pid_stat(5)). This is the longest text that is parsed for each task that ran, hence byte by byte.
pub fn parse_decimals(room: &mut [u64], text: &[u8]) -> Option<usize> {
    let mut rest = text;
    let mut filled = 0;
    for field in room {
        while let [b' ', behind @ ..] = rest {
            rest = behind;
        }
        let negative = match rest {
            [] => break,
            [b'-', behind @ ..] => {
                rest = behind;
                true
            }
            _ => false,
        };
        let (mut sum, mut digits) = (0_u64, 0);
        while let [byte, behind @ ..] = rest
            && *byte != b' '
        {
            let digit = parse_digit(*byte)?;
            sum = if digits < SAFE_DIGITS { sum * 10 + digit } else { sum.checked_mul(10)?.checked_add(digit)? };
            digits += 1;
            rest = behind;
        }
        *field = if negative { sum.wrapping_neg() } else { sum };
        filled += 1;
    }
    Some(filled)
}

fn parse_digit(byte: u8) -> Option<u64> {
    byte.is_ascii_digit().then(|| u64::from(byte - b'0'))
}
