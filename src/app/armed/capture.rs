//! One capture: a recording that begins with the samples in memory, created in the background.

use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use crate::app::finding_command::{FindingCommand, FindingNotice};
use crate::app::program::{stdio, threads};
use crate::app::recorder::captures::Captures;
use crate::app::recorder::{self, PendingRecords, RecordingResult, Session};
use crate::app::sampling::TimedSample;
use crate::baseline::Baselines;
use crate::recording::{FrameBacklog, FrameSummary, Meta, RecorderStatus, Timestamp};

use super::capture_plan::CapturePlan;

/// How long the end of the program waits for a file that is being created.
const CREATE_TIMEOUT: Duration = Duration::from_secs(5);

/// A capture that goes on.
pub struct Capture {
    pub plan: CapturePlan,
    state: CaptureState,
    /// Findings whose command is run once the file has its name
    unreported: Vec<FindingNotice>,
    /// What is reported when it begins
    title: String,
}

enum CaptureState {
    /// The disk has not created the file yet
    Creating(Receiver<Result<Session, String>>, PendingRecords),
    Recording(Box<Session>),
    /// It cannot be recorded, which has been reported
    Failed,
}

/// What a capture begins with.
pub struct CaptureStart {
    pub history: FrameBacklog,
    pub baselines: Baselines,
    pub meta: Meta,
    /// Its sentence, which has been added to `history` as a mark
    pub text: String,
    /// The words in its file name
    pub slug: String,
}

impl Capture {
    /// Creates the file on a thread of its own: its disk may be the one that does not answer.
    pub fn start(plan: CapturePlan, captures: &Captures, start: CaptureStart) -> Capture {
        let (sender, created) = sync_channel(1);
        let CaptureStart { history, baselines, meta, text, slug } = start;
        let captures = captures.clone();
        let create = move || {
            let session = captures.create(&slug, history, &meta, &baselines);
            // The receiver is gone only when the program ends.
            let _ = sender.send(session.map_err(|error| recorder::failure(error).to_string()));
        };
        let state = match threads::spawn("capture", create) {
            Ok(_) => CaptureState::Creating(created, PendingRecords::default()),
            Err(failure) => {
                stdio::print_stderr(&format!("nothing is captured of '{text}': {failure}"));
                CaptureState::Failed
            }
        };
        Capture { plan, state, unreported: Vec::new(), title: text }
    }

    /// Records a sample. Never blocks.
    pub fn offer(&mut self, sample: &TimedSample, summary: FrameSummary) {
        match &mut self.state {
            CaptureState::Creating(_, pending) => pending.offer(sample, summary),
            CaptureState::Recording(session) => session.offer(sample.clone(), summary),
            CaptureState::Failed => {}
        }
    }

    /// Records a mark. Never blocks.
    pub fn mark(&mut self, at: Timestamp, text: &str) {
        let marked = match &mut self.state {
            CaptureState::Creating(_, pending) => pending.mark(at, text),
            CaptureState::Recording(session) => session.mark(at, text),
            CaptureState::Failed => Ok(()),
        };
        if let Err(why) = marked {
            stdio::print_stderr(&format!("the capture lacks the mark '{text}': {why}"));
        }
    }

    /// The command is run for this finding as soon as the file has its name.
    pub fn report(&mut self, notice: FindingNotice) {
        self.unreported.push(notice);
    }

    /// Called with each sample: takes over the file that was created, runs the command for findings, reports changes of the disk. `false`
    /// if the recording has failed or is full.
    pub fn poll(&mut self, command: Option<&FindingCommand>) -> bool {
        if let CaptureState::Creating(created, pending) = &mut self.state {
            let session = match created.try_recv() {
                Ok(session) => session,
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => Err("an internal error of stalltop".to_owned()),
            };
            let pending = std::mem::take(pending);
            self.created(session, pending);
        }
        self.report_findings(command);
        match &mut self.state {
            CaptureState::Recording(session) => {
                if let Some(change) = session.status_change() {
                    stdio::print_stderr(&change);
                }
                !matches!(session.status(), RecorderStatus::Failed { .. } | RecorderStatus::LimitReached(_))
            }
            CaptureState::Creating(..) => true,
            CaptureState::Failed => false,
        }
    }

    /// Ends the recording, and prints what was recorded, or why not.
    pub fn finish(self, command: Option<&FindingCommand>) {
        self.end(command, Session::finish);
    }

    /// The same at the end of the program, which waits longer for the disk.
    pub fn finish_at_exit(mut self, command: Option<&FindingCommand>) {
        let begin = Instant::now();
        while matches!(self.state, CaptureState::Creating(..)) && begin.elapsed() < CREATE_TIMEOUT {
            std::thread::sleep(Duration::from_millis(2));
            self.poll(command);
        }
        self.end(command, Session::finish_patiently);
    }

    fn end(mut self, command: Option<&FindingCommand>, finish: fn(Session) -> RecordingResult) {
        self.poll(command);
        self.report_findings(command);
        match self.state {
            CaptureState::Recording(session) => {
                let result = finish(*session);
                stdio::print_stderr(&result.failure().unwrap_or_else(|| result.summary()));
            }
            CaptureState::Creating(..) => {
                stdio::print_stderr(&format!("nothing is captured of '{}': the disk does not answer", self.title));
            }
            CaptureState::Failed => {}
        }
    }

    /// Runs the command for the findings that wait for it.
    fn report_findings(&mut self, command: Option<&FindingCommand>) {
        let file = match &self.state {
            CaptureState::Recording(session) => Some(session.location()),
            CaptureState::Creating(..) | CaptureState::Failed => None,
        };
        for notice in self.unreported.drain(..) {
            if let Some(command) = command {
                command.notify(FindingNotice { file: file.clone(), ..notice });
            }
        }
    }

    fn created(&mut self, session: Result<Session, String>, pending: PendingRecords) {
        self.state = match session {
            Ok(mut session) => {
                stdio::print_stderr(&format!("capturing into {}: {}", session.location(), self.title));
                pending.write_to(&mut session);
                CaptureState::Recording(Box::new(session))
            }
            Err(why) => {
                stdio::print_stderr(&format!("nothing is captured of '{}': {why}", self.title));
                CaptureState::Failed
            }
        };
    }
}
