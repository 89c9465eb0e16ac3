//! Which form a column gets: the writer's side of `forms`. Whatever is chosen here can be read.
//!
//! To say a new form costs some bytes, and later frames go on with it: so a column keeps its form as long as no other would
//! be much shorter.

use rustc_hash::FxHashMap;

use super::bits::BitSink;
use super::forms::{Code, Form, Forms, Place};
use super::gathered::Gathered;
use super::table::FREE_ROWS;

/// Writes columns, and remembers what was in them.
#[derive(Default)]
pub struct Chooser {
    forms: Forms,
    histories: FxHashMap<(Place, usize), History>,
    values: Vec<u64>,
    fresh: Vec<u64>,
}

/// From so many rows on, the frame itself tells what its numbers are like.
const MANY: usize = 6;
/// Bits that a new form costs, about.
const CHANGE: u64 = 32;
/// Another form is looked for in one of so many frames.
const REVIEW: u32 = 8;

impl Chooser {
    /// All forms after what was written last.
    pub fn forms(&self) -> &Forms {
        &self.forms
    }

    /// In a key frame all forms are said anew: those of columns that were 0 since the last one are left out.
    pub fn begin_key(&mut self) {
        let Chooser { forms, histories, .. } = self;
        histories.retain(|&(place, column), history| {
            let used = std::mem::take(&mut history.used);
            if !used {
                forms.set(place, column, Form::default());
            }
            used
        });
    }

    /// Writes rows, column by column. `now`: of rows that changed, what they are.
    pub fn write(&mut self, place: Place, rows: &Gathered, now: Option<&Gathered>, bits: &mut BitSink) {
        let count = rows.len();
        if count == 0 {
            return;
        }
        let mut used = rows.used();
        let formed = self.forms.columns(place).into_iter().flat_map(|columns| columns.keys());
        formed.for_each(|&column| used.get_mut(column).into_iter().for_each(|used| *used = true));
        if let Some(first) = used.first_mut().filter(|_| count > FREE_ROWS) {
            *first = true;
        }
        let (mut values, mut fresh) = (std::mem::take(&mut self.values), std::mem::take(&mut self.fresh));
        for (column, _) in used.into_iter().enumerate().filter(|(_, used)| *used) {
            values.clear();
            values.extend(rows.column(column));
            fresh.clear();
            fresh.extend(now.into_iter().flat_map(|now| now.column(column)));
            let mut form = self.choose(place, column, &values, &fresh);
            if column == 0 && count > FREE_ROWS && form.least_length() == 0 {
                form = Form { code: Code::Golomb { order: 0 }, ..Form::default() };
                if !values.iter().all(|&value| form.length(value).is_some_and(|length| length < 64)) {
                    form.code = Code::Within { least: 0, most: u64::MAX };
                }
                self.forms.set(place, column, form);
            }
            let written = if form.fresh { &fresh } else { &values };
            written.iter().for_each(|&value| form.put(bits, value));
        }
        (self.values, self.fresh) = (values, fresh);
    }

    fn choose(&mut self, place: Place, column: usize, values: &[u64], fresh: &[u64]) -> Form {
        let current = self.forms.form(place, column);
        let history = self.histories.entry((place, column)).or_default();
        history.add(values);
        let written = if current.fresh { fresh } else { values };
        let fits = written.iter().all(|&value| current.fits(value));
        if !fits {
            history.misfits += 1;
        }
        let form = if values.len() < MANY {
            if fits && history.likes(current) { current } else { history.golomb() }
        } else if fits && !history.frames.is_multiple_of(REVIEW) {
            current
        } else {
            // What does not fit goes on in a wider range; what fits may do in a narrower one.
            let current_range = if fits { Form::default() } else { current };
            let mut best = history.best(values, current_range);
            if !fresh.is_empty() {
                let (form, bits) = History::of(fresh).best(fresh, current_range);
                if bits < best.1 {
                    best = (Form { fresh: true, ..form }, bits);
                }
            }
            let kept = length(current, written);
            if kept.is_some_and(|kept| kept <= best.1 + CHANGE) { current } else { best.0 }
        };
        if form != current {
            self.forms.set(place, column, form);
        }
        form
    }
}

/// Bits that these numbers take; `None` where the form cannot say one of them.
fn length(form: Form, values: &[u64]) -> Option<u64> {
    values.iter().map(|&value| form.length(value).map(u64::from)).sum()
}

/// What the numbers of a column were like lately.
#[derive(Default)]
struct History {
    /// How many had so many bits, their sign apart, least first. A column's numbers are mostly of few lengths, and there are
    /// hundreds of columns.
    lengths: Vec<(u8, u32)>,
    total: u32,
    /// Frames until a negative one is forgotten.
    negative: u32,
    /// All bits that were ever set.
    bits: u64,
    frames: u32,
    /// How often the form had to be changed lately.
    misfits: u64,
    /// Whether any was not 0 since the last key frame.
    used: bool,
}

/// Numbers that are remembered, before the older ones count half.
const WINDOW: u32 = 64;
/// Parts of a bit that expected lengths are counted in.
const PARTS: u64 = 16;

impl History {
    fn of(values: &[u64]) -> History {
        let mut history = History::default();
        history.add(values);
        history
    }

    fn add(&mut self, values: &[u64]) {
        if self.total > WINDOW {
            self.lengths.iter_mut().for_each(|(_, count)| *count /= 2);
            self.lengths.retain(|(_, count)| *count > 0);
            self.total = self.lengths.iter().map(|(_, count)| count).sum();
        }
        self.total += u32::try_from(values.len()).unwrap_or(u32::MAX);
        self.frames = self.frames.wrapping_add(1);
        if self.frames.is_multiple_of(REVIEW) {
            self.misfits /= 2;
        }
        self.negative = self.negative.saturating_sub(1);
        let mut counts = [0; 65];
        for &value in values {
            if value.cast_signed() < 0 {
                self.negative = WINDOW;
            }
            let magnitude = value.cast_signed().unsigned_abs();
            if let Some(count) = counts.get_mut(64 - magnitude.leading_zeros() as usize) {
                *count += 1;
            }
            self.bits |= magnitude;
            self.used |= value != 0;
        }
        for (length, count) in (0..).zip(counts).filter(|&(_, count)| count > 0) {
            match self.lengths.binary_search_by_key(&length, |&(length, _)| length) {
                Ok(at) => self.lengths.get_mut(at).into_iter().for_each(|(_, seen)| *seen += count),
                Err(at) => self.lengths.insert(at, (length, count)),
            }
        }
    }

    /// Expected parts of a bit for what was seen, in a Golomb code.
    fn cost(&self, order: u32, shift: u32, signed: bool) -> u64 {
        self.seen().map(|(length, count)| expected(length, order, shift, signed) * u64::from(count)).sum()
    }

    fn seen(&self) -> impl Iterator<Item = (u32, u32)> {
        self.lengths.iter().map(|&(length, count)| (u32::from(length), count))
    }

    fn shift(&self) -> u32 {
        // Of a few it may be chance.
        let zeros = self.lengths.first().filter(|(length, _)| *length == 0).map_or(0, |&(_, count)| count);
        let few = self.total.saturating_sub(zeros) < MANY as u32;
        if few || self.bits == 0 { 0 } else { self.bits.trailing_zeros().min(63) }
    }

    /// The best Golomb code for what was seen.
    fn golomb(&self) -> Form {
        let (shift, signed) = (self.shift(), self.negative > 0);
        let seen: Vec<(u32, u32)> = self.seen().collect();
        let longest = seen.last().map_or(0, |&(length, _)| length).saturating_sub(shift) + u32::from(signed);
        let cost =
            |order| seen.iter().map(|&(length, count)| expected(length, order, shift, signed) * u64::from(count)).sum::<u64>();
        let order = (0..=longest.min(63)).min_by_key(|&order| cost(order)).unwrap_or_default();
        let code = if signed { Code::Signed { order } } else { Code::Golomb { order } };
        Form { code, shift, fresh: false }
    }

    /// Whether a form that fits is not much longer than the best.
    fn likes(&self, form: Form) -> bool {
        let parts = match form.code {
            Code::Golomb { .. } if self.negative > 0 => return false,
            Code::Golomb { order } => self.cost(order, form.shift, false),
            Code::Signed { order } => self.cost(order, form.shift, true),
            Code::Within { .. } | Code::Mostly { .. } => u64::from(self.total) * u64::from(form.least_length()) * PARTS,
        };
        if !self.frames.is_multiple_of(REVIEW) {
            return true;
        }
        let Form { code: Code::Golomb { order } | Code::Signed { order }, shift, .. } = self.golomb() else { return true };
        parts <= self.cost(order, shift, self.negative > 0) + CHANGE * PARTS
    }

    /// The best form for many numbers that were just added, and how many bits they take.
    fn best(&self, values: &[u64], current: Form) -> (Form, u64) {
        let golomb = History::of(values).golomb();
        let within = within(values, current);
        let step = values.len().div_ceil(ENOUGH).max(1);
        let part: Vec<u64> = values.iter().step_by(step).copied().collect();
        let bits = |form| length(form, &part).map_or(u64::MAX / 2, |bits| bits * step as u64);
        // It may be too narrow again for the next frame.
        let narrow = bits(within) + CHANGE * self.misfits;
        let mut best =
            if narrow <= bits(golomb) { (within, bits(within), narrow) } else { (golomb, bits(golomb), bits(golomb)) };
        let tight = if current == Form::default() { within } else { self::within(values, Form::default()) };
        for form in mostly(&part, tight) {
            let bits = bits(form);
            if bits < best.2 {
                best = (form, bits, bits);
            }
        }
        if step == 1 {
            return (best.0, best.1);
        }
        // What the part did not show may be more than the form can say: the range of all of them says all of them.
        let whole = length(best.0, values).map(|bits| (best.0, bits));
        whole.unwrap_or_else(|| (within, length(within, values).unwrap_or(u64::MAX / 2)))
    }
}

/// Ranges that hold all but a few of many numbers, of which all lie in the range of `within`.
fn mostly(values: &[u64], within: Form) -> impl Iterator<Item = Form> {
    let mut sorted: Vec<i64> = values.iter().map(|value| value.cast_signed()).collect();
    sorted.sort_unstable();
    let Form { code, shift, .. } = within;
    let least = if let Code::Within { least, .. } = code { least } else { 0 };
    let beyond = if sorted.len() < LARGE { &[][..] } else { &[64, 24, 8][..] };
    beyond.iter().filter_map(move |part| {
        let last = *sorted.get((sorted.len() - 1).checked_sub(sorted.len() / part)?)?;
        let most = last.checked_sub(least.cast_signed())? >> shift;
        let code = Code::Mostly { least, most: u64::try_from(most.saturating_add(most / SLACK as i64 + 1)).ok()? };
        Some(Form { code, shift, fresh: false })
    })
}

/// Of more numbers than this a part tells which form is the shortest.
const ENOUGH: usize = 256;

/// So many numbers may hold some that are unlike the others.
const LARGE: usize = 24;

/// Parts of a bit that a number of so many bits takes in a Golomb code, as a rule.
fn expected(length: u32, order: u32, shift: u32, signed: bool) -> u64 {
    let length = (length + u32::from(signed && length > 0)).saturating_sub(shift);
    match length.saturating_sub(order) {
        0 => u64::from(1 + order) * PARTS,
        // One in 2^more of that length needs one more.
        above => u64::from(2 * (above - 1) + 1 + order) * PARTS + ((2 * PARTS) >> (above - 1).min(60)),
    }
}

/// The range of these numbers and a little more, since the next ones will not be the same; with that of the present form, where
/// it is much the same.
fn within(values: &[u64], current: Form) -> Form {
    let signed = || values.iter().map(|value| value.cast_signed());
    let (first, last) = (signed().min().unwrap_or_default(), signed().max().unwrap_or_default());
    // All of them lie on a grid from the first on.
    let grid = values.iter().fold(0, |all, value| all | value.wrapping_sub(first.cast_unsigned()));
    let shift = if grid == 0 { 0 } else { grid.trailing_zeros() };
    let (first, last) = (i128::from(first), i128::from(last));
    let tight = last - first;
    // Of few numbers the largest says less about the next ones.
    let slack = (tight / SLACK).max(2 * tight / (values.len() as i128 + 1));
    let mut most = last + slack;
    let mut least = match first {
        0.. if first <= 2 * slack => 0,
        0.. => (first - slack).max(0),
        _ => first - slack,
    };
    if let Form { code: Code::Within { least: from, most: above }, shift, .. } = current
        && current != Form::default()
    {
        let from = i128::from(from.cast_signed());
        let to = from + (i128::from(above) << shift.min(60));
        if most.max(to) - least.min(from) <= tight + tight / 8 {
            (least, most) = (least.min(from), most.max(to));
        }
    }
    let (least, most) = (least.max(i128::from(i64::MIN)), most.min(i128::from(i64::MAX)));
    let least = first - ((first - least) >> shift << shift);
    let code = Code::Within { least: (least as i64).cast_unsigned(), most: ((most - least) >> shift) as u64 };
    Form { code, shift, fresh: false }
}

/// Which part of the range is added at either end, at least.
const SLACK: i128 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::payload::column::bits::BitSource;
    use crate::recording::payload::column::forms::Role;

    const PLACE: Place = (8, Role::Near);

    /// How many bits each frame takes, after a look that it can be read.
    fn frames(frames: &[Vec<u64>]) -> Vec<u64> {
        let mut chooser = Chooser::default();
        let each = frames.iter().map(|values| {
            let before = chooser.forms().clone();
            let mut sink = BitSink::default();
            let mut rows = Gathered::new(1);
            values.iter().for_each(|&value| rows.push([value]));
            chooser.write(PLACE, &rows, None, &mut sink);
            let bits = sink.take();
            let form = chooser.forms().form(PLACE, 0);
            let mut source = BitSource::new(&bits);
            values.iter().for_each(|&value| assert_eq!(form.take(&mut source), Ok(value), "{form:?}"));
            let mut said = Vec::new();
            chooser.forms().write_since(&before, &mut said);
            8 * said.len() as u64 + length(form, values).unwrap()
        });
        each.collect()
    }

    #[test]
    fn numbers_of_one_size_soon_take_hardly_more_than_their_bits() {
        let mut seed = 7u64;
        let mut roll = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let few: Vec<Vec<u64>> = (0..200).map(|_| vec![roll(1 << 17)]).collect();
        let taken = frames(&few).into_iter().skip(20).sum::<u64>();
        assert!(taken < 180 * 19, "{taken}");
        let many: Vec<Vec<u64>> = (0..50).map(|_| (0..100).map(|_| 4096 * roll(30)).collect()).collect();
        let taken = frames(&many).into_iter().skip(5).sum::<u64>();
        assert!(taken < 45 * 100 * 26 / 5, "{taken}");
        let rare: Vec<Vec<u64>> =
            (0..50).map(|_| (0..100).map(|_| if roll(10) == 0 { roll(1000) } else { 0 }).collect()).collect();
        let taken = frames(&rare).into_iter().skip(5).sum::<u64>();
        assert!(taken < 45 * 100 * 3, "{taken}");
    }

    #[test]
    fn any_numbers_can_be_written_after_any_others() {
        let edges = [0, 1, u64::MAX, 1 << 63, u64::MAX >> 1, 4096, 4096u64.wrapping_neg(), 12_345_678_901];
        let mut list = Vec::new();
        for from in 0..edges.len() {
            for count in [1, 2, 7, 40, 600] {
                list.push(edges.iter().copied().cycle().skip(from).step_by(count + 1).take(count).collect::<Vec<u64>>());
                list.push(vec![edges[from]; count]);
            }
        }
        frames(&list);
    }
}
