//! The time that `check --for` takes: the deadline of its last sample, and why it took longer.

use std::time::{Duration, Instant};

use crate::app::program::cpu_wait;

/// What may pass beyond `--for` without a word: one sample is late, the recording is ended, the findings are printed.
const ALLOWED_OVERRUN: Duration = Duration::from_secs(1);

/// How long after its due time the last sample is waited for. The rest of `ALLOWED_OVERRUN` is for what follows it.
const LAST_SAMPLE_DELAY: Duration = Duration::from_millis(600);

/// The start of the command.
#[derive(Clone, Copy, Debug)]
pub struct RunTime {
    start: Instant,
}

impl RunTime {
    /// Begins now.
    pub fn start() -> RunTime {
        RunTime { start: Instant::now() }
    }

    /// When the last sample of this span is no longer waited for; `None` if the span never ends.
    pub fn deadline(self, span: Duration) -> Option<Instant> {
        self.start.checked_add(span)?.checked_add(LAST_SAMPLE_DELAY)
    }

    /// Says that the last sample did not come in time, and why.
    pub fn late_sample(self) -> String {
        late_sample_line(cpu_wait::total())
    }

    /// Says how much longer than the span it took, and why; `None` if it was on time.
    pub fn overrun(self, span: Duration) -> Option<String> {
        overrun_line(self.start.elapsed(), span, cpu_wait::total())
    }
}

fn late_sample_line(cpu_wait: Duration) -> String {
    format!(
        "the last sample is late, so that the findings are of the time before it: this process waited {} s for a CPU",
        seconds(cpu_wait)
    )
}

/// `cpu_wait`: sum over the threads of the process.
fn overrun_line(elapsed: Duration, span: Duration, cpu_wait: Duration) -> Option<String> {
    let over = elapsed.checked_sub(span).filter(|&over| over > ALLOWED_OVERRUN)?;
    let (took, asked, waited) = (seconds(elapsed), seconds(span), seconds(cpu_wait.min(elapsed)));
    Some(match cpu_wait >= over / 2 {
        true => format!("check took {took} s instead of {asked} s: this process waited {waited} s for a CPU"),
        false => format!(
            "check took {took} s instead of {asked} s: it was blocked in reads or writes (and waited {waited} s for a CPU)"
        ),
    })
}

fn seconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overrun_is_told_with_its_reason() {
        let line = |elapsed: f64, cpu_wait: f64| {
            overrun_line(Duration::from_secs_f64(elapsed), Duration::from_secs(10), Duration::from_secs_f64(cpu_wait))
        };
        assert_eq!(line(10.9, 5.0), None);
        assert_eq!(line(17.0, 12.04).unwrap(), "check took 17.0 s instead of 10.0 s: this process waited 12.0 s for a CPU");
        let blocked = "check took 17.0 s instead of 10.0 s: it was blocked in reads or writes (and waited 0.2 s for a CPU)";
        assert_eq!(line(17.0, 0.2).unwrap(), blocked);
    }
}
