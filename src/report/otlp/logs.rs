//! Findings as log records: one when a finding begins, when its severity changes, and when it ends.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use prost::Message;

use super::metrics::unix_ns;
use super::{TelemetryResource, attribute, number, text};
use crate::findings::{Evaluation, Finding, FindingKey, Severity, Subject};
use crate::report::formatting::{printable, subject_name};

/// The findings that were active at the last interval, with their severity then.
#[derive(Clone, Debug, Default)]
pub struct FindingLogRecords(BTreeMap<FindingKey, Severity>);

impl FindingLogRecords {
    /// The changes since the last interval as the body of a request to /v1/logs; `None` without changes.
    pub fn request(&mut self, evaluation: &Evaluation, resource: &TelemetryResource) -> Option<Vec<u8>> {
        let at = unix_ns(evaluation.interval.at());
        let mut records = Vec::new();
        for finding in evaluation.active.iter() {
            match self.0.insert(finding.key(), finding.severity) {
                None => records.push(record(finding, "began", at)),
                Some(severity) if severity != finding.severity => records.push(record(finding, "changed", at)),
                Some(_) => {}
            }
        }
        for finding in &evaluation.ended {
            if self.0.remove(&finding.key()).is_some() {
                records.push(record(finding, "ended", at));
            }
        }
        (!records.is_empty()).then(|| request(records, resource))
    }
}

fn request(log_records: Vec<LogRecord>, resource: &TelemetryResource) -> Vec<u8> {
    let scope = ScopeLogs { scope: Some(resource.scope()), log_records, ..ScopeLogs::default() };
    let resource_logs =
        ResourceLogs { resource: Some(resource.resource()), scope_logs: vec![scope], ..ResourceLogs::default() };
    ExportLogsServiceRequest { resource_logs: vec![resource_logs] }.encode_to_vec()
}

/// `at`: the end of the interval that shows the change, Unix time in ns.
fn record(finding: &Finding, change: &str, at: u64) -> LogRecord {
    let subject = match &finding.subject {
        Subject::Host => "host".to_owned(),
        subject => printable(&subject_name(subject)),
    };
    let mut attributes = vec![
        attribute("stalltop.finding.kind", finding.kind.as_str()),
        attribute("stalltop.finding.severity", finding.severity.as_str()),
        attribute("stalltop.finding.subject", &subject),
    ];
    attributes.push(opentelemetry_proto::tonic::common::v1::KeyValue {
        key: "stalltop.finding.value".to_owned(),
        value: Some(number(finding.value)),
        ..Default::default()
    });
    attributes.push(attribute("stalltop.finding.unit", finding.unit));
    if let Some(cause) = &finding.follows_from {
        attributes.push(attribute("stalltop.finding.follows_from", cause.kind.as_str()));
    }
    let severity = match finding.severity {
        Severity::Note => SeverityNumber::Info,
        Severity::Warning => SeverityNumber::Warn,
        Severity::Critical => SeverityNumber::Error,
    };
    LogRecord {
        time_unix_nano: at,
        observed_time_unix_nano: at,
        // That it is over is no problem.
        severity_number: if change == "ended" { SeverityNumber::Info } else { severity }.into(),
        severity_text: finding.severity.as_str().to_owned(),
        body: Some(text(&printable(&finding.sentence))),
        attributes,
        event_name: format!("stalltop.finding.{change}"),
        ..LogRecord::default()
    }
}

/// What an accepted request's answer says about log records that were not stored: their number and why. `None`: all were stored, or
/// the answer cannot be read.
pub fn rejected_findings(answer: &[u8]) -> Option<(i64, String)> {
    let partial = ExportLogsServiceResponse::decode(answer).ok()?.partial_success?;
    (partial.rejected_log_records > 0).then_some((partial.rejected_log_records, partial.error_message))
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsPartialSuccess;

    use super::*;

    #[test]
    fn an_accepted_request_may_have_rejected_records() {
        let answer = |rejected_log_records| {
            let partial_success = Some(ExportLogsPartialSuccess { rejected_log_records, error_message: "too old".into() });
            ExportLogsServiceResponse { partial_success }.encode_to_vec()
        };
        assert_eq!(rejected_findings(&answer(3)), Some((3, "too old".to_owned())));
        // A warning alone.
        assert_eq!([rejected_findings(&answer(0)), rejected_findings(b""), rejected_findings(b"\xff")], [None, None, None]);
    }
}
