//! Parses /proc/net/dev: a line for each interface, its columns found by the names in the header.

use crate::kernel::fields::{lines, parse_u64, words};
use crate::sample::network::DirectionCounters;
use crate::units::Counter;

/// One interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevLine<'a> {
    pub name: &'a [u8],
    pub rx: DirectionCounters,
    pub tx: DirectionCounters,
    pub multicast: Counter,
    pub collisions: Counter,
    pub carrier_losses: Counter,
}

/// Parses the lines; `None` without a header that has all columns in use. Damaged lines are left out.
pub fn parse(bytes: &[u8]) -> Option<Vec<DevLine<'_>>> {
    let mut lines = lines(bytes);
    let columns = Columns::from_header(lines.by_ref().nth(1)?)?;
    Some(lines.filter_map(|text| parse_line(text, &columns)).collect())
}

/// Index of each column among the numbers of a line.
struct Columns {
    rx: DirectionColumns,
    tx: DirectionColumns,
    multicast: usize,
    collisions: usize,
    carrier: usize,
    count: usize,
}

struct DirectionColumns {
    bytes: usize,
    packets: usize,
    errors: usize,
    dropped: usize,
    fifo: usize,
}

impl Columns {
    /// ` face |bytes packets errs drop fifo …|bytes packets errs drop fifo …`
    fn from_header(header: &[u8]) -> Option<Columns> {
        let mut parts = header.split(|byte| *byte == b'|').skip(1);
        let rx: Vec<&[u8]> = words(parts.next()?).collect();
        let tx: Vec<&[u8]> = words(parts.next()?).collect();
        let place = |names: &[&[u8]], before: usize, name: &str| {
            names.iter().position(|other| *other == name.as_bytes()).map(|place| place + before)
        };
        let places = |names: &[&[u8]], before| {
            Some(DirectionColumns {
                bytes: place(names, before, "bytes")?,
                packets: place(names, before, "packets")?,
                errors: place(names, before, "errs")?,
                dropped: place(names, before, "drop")?,
                fifo: place(names, before, "fifo")?,
            })
        };
        Some(Columns {
            multicast: place(&rx, 0, "multicast")?,
            collisions: place(&tx, rx.len(), "colls")?,
            carrier: place(&tx, rx.len(), "carrier")?,
            count: rx.len() + tx.len(),
            rx: places(&rx, 0)?,
            tx: places(&tx, rx.len())?,
        })
    }
}

/// Splits a line into name and numbers. A name may have colons (eth0:1), and old kernels write no space after the one that
/// ends it: that is the last colon that only enough numbers follow.
fn parse_line<'a>(text: &'a [u8], columns: &Columns) -> Option<DevLine<'a>> {
    let colon = text.iter().rposition(|byte| *byte == b':')?;
    let (name, rest) = text.split_at_checked(colon)?;
    let name = name.trim_ascii();
    let numbers: Option<Vec<u64>> = words(rest.strip_prefix(b":")?).map(parse_u64).collect();
    let numbers = numbers.filter(|numbers| numbers.len() >= columns.count && !name.is_empty())?;
    let counter = |place: usize| numbers.get(place).copied().map(Counter);
    let direction = |places: &DirectionColumns| {
        Some(DirectionCounters {
            bytes: counter(places.bytes)?,
            packets: counter(places.packets)?,
            errors: counter(places.errors)?,
            dropped: counter(places.dropped)?,
            fifo_errors: counter(places.fifo)?,
        })
    };
    Some(DevLine {
        name,
        rx: direction(&columns.rx)?,
        tx: direction(&columns.tx)?,
        multicast: counter(columns.multicast)?,
        collisions: counter(columns.collisions)?,
        carrier_losses: counter(columns.carrier)?,
    })
}
