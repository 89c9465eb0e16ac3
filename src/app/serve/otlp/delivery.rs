//! Sends requests to the collector, one at a time, each by a connection of its own. What may succeed later is tried again.

use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::endpoint::Endpoint;
use super::outbox::{Body, Outbox};
use crate::app::program::stdio;
use crate::report::otlp::{rejected_findings, rejected_points};

/// From the beginning of a connection to the end of the answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Before the next try.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// An answer is a few bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Why a request was not accepted.
#[derive(Debug)]
enum Refusal {
    /// No answer, or one that says to come again
    Later(String),
    /// Sent again it would be refused again
    Never(String),
}

/// Sends what comes into the outbox, without end.
pub async fn deliver_all(endpoint: &Endpoint, outbox: &Outbox) {
    let mut failing = false;
    loop {
        let body = outbox.take().await;
        let result = deliver(endpoint, &body).await;
        // The first of several failures is printed, and the end of them.
        let was_failing = std::mem::replace(&mut failing, result.is_err());
        match result {
            Ok(()) if was_failing => stdio::print_stderr(&format!("metrics and findings are sent to {} again", endpoint.url)),
            Ok(()) => {}
            Err(Refusal::Never(why)) => report(endpoint, was_failing, &why, "what is refused is dropped"),
            Err(Refusal::Later(why)) => {
                report(endpoint, was_failing, &why, "it is tried again every 5 s");
                outbox.put_back(body);
                sleep(RETRY_PAUSE).await;
            }
        }
    }
}

fn report(endpoint: &Endpoint, was_failing: bool, why: &str, then: &str) {
    if !was_failing {
        stdio::print_stderr(&format!("cannot send metrics to {}: {why}; {then}", endpoint.url));
    }
}

async fn deliver(endpoint: &Endpoint, body: &Body) -> Result<(), Refusal> {
    let (kind, bytes) = match body {
        Body::Logs(bytes) => ("logs", bytes),
        Body::Metrics(bytes) => ("metrics", bytes),
    };
    let answer = timeout(REQUEST_TIMEOUT, post(endpoint, kind, bytes)).await;
    let (status, answer) = answer
        .map_err(|_| Refusal::Later("no answer within 10 s".to_owned()))?
        .map_err(|error| Refusal::Later(error.to_string()))?;
    if status.is_success() {
        let rejected = match body {
            Body::Logs(_) => rejected_findings(&answer),
            Body::Metrics(_) => rejected_points(&answer),
        };
        return match rejected {
            None => Ok(()),
            Some((number, why)) => Err(Refusal::Never(format!("the collector rejected {number} of the {kind}: {why}"))),
        };
    }
    let why = format!("the collector answers {status} to /v1/{kind}");
    let is_temporary = matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    );
    Err(if is_temporary { Refusal::Later(why) } else { Refusal::Never(why) })
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

async fn post(endpoint: &Endpoint, kind: &str, body: &[u8]) -> Result<(StatusCode, Bytes), AnyError> {
    let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the connection.
    tokio::spawn(connection);
    let mut request = Request::post(endpoint.path(kind))
        .header(HOST, endpoint.authority())
        .header(USER_AGENT, concat!("stalltop/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, "application/x-protobuf");
    for (name, value) in &endpoint.headers {
        request = request.header(name, value);
    }
    let response = sender.send_request(request.body(Full::new(Bytes::copy_from_slice(body)))?).await?;
    let status = response.status();
    let answer = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await?;
    Ok((status, answer.to_bytes()))
}
