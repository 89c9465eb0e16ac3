//! Sends requests to the collector, metrics and findings independently, one of each at a time and by a connection of its own. What may
//! succeed later is tried again.

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
use super::outbox::{Outbox, RequestKind};
use crate::app::program::stdio;
use crate::report::otlp::{rejected_findings, rejected_points};

/// From the beginning of a connection to the end of the answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Between two tries to send a request.
pub const RETRY_PAUSE: Duration = Duration::from_secs(5);

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
pub async fn deliver_all(endpoint: &Endpoint, outbox: &Outbox, retry_pause: Duration) {
    let deliver = |kind| deliver_kind(endpoint, outbox, kind, retry_pause);
    tokio::join!(deliver(RequestKind::Logs), deliver(RequestKind::Metrics));
}

async fn deliver_kind(endpoint: &Endpoint, outbox: &Outbox, kind: RequestKind, retry_pause: Duration) {
    let what = kind.noun();
    let mut failing = false;
    loop {
        let request = outbox.next_request(kind).await;
        let result = deliver(endpoint, kind, &request).await;
        // The first of several failures is printed, and the end of them.
        let was_failing = std::mem::replace(&mut failing, result.is_err());
        let report = |why: &str, then: &str| {
            if !was_failing {
                stdio::print_stderr(&format!("cannot send {what} to {}: {why}; {then}", endpoint.url));
            }
        };
        match result {
            Ok(()) if was_failing => stdio::print_stderr(&format!("{what} are sent to {} again", endpoint.url)),
            Ok(()) => {}
            Err(Refusal::Never(why)) => report(&why, "what is refused is dropped"),
            Err(Refusal::Later(why)) => {
                report(&why, &format!("it is tried again every {} s", retry_pause.as_secs()));
                outbox.put_back(kind, request);
                sleep(retry_pause).await;
            }
        }
    }
}

async fn deliver(endpoint: &Endpoint, kind: RequestKind, request: &[u8]) -> Result<(), Refusal> {
    let signal = kind.signal();
    let answer = timeout(REQUEST_TIMEOUT, post(endpoint, signal, request)).await;
    let (status, answer) = answer
        .map_err(|_| Refusal::Later("no answer within 10 s".to_owned()))?
        .map_err(|error| Refusal::Later(error.to_string()))?;
    if status.is_success() {
        let rejected = match kind {
            RequestKind::Logs => rejected_findings(&answer),
            RequestKind::Metrics => rejected_points(&answer),
        };
        return match rejected {
            None => Ok(()),
            Some((number, why)) => Err(Refusal::Never(format!("the collector rejected {number} of the {signal}: {why}"))),
        };
    }
    let why = format!("the collector answers {status} to /v1/{signal}");
    let is_temporary = matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    );
    Err(if is_temporary { Refusal::Later(why) } else { Refusal::Never(why) })
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

async fn post(endpoint: &Endpoint, signal: &str, body: &[u8]) -> Result<(StatusCode, Bytes), AnyError> {
    let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the connection.
    tokio::spawn(connection);
    let mut request = Request::post(endpoint.path(signal))
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream as StdStream};
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// A collector that takes metrics but no logs; sends the path of each request.
    fn collector() -> (Endpoint, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let (sender, paths) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let path = answer(stream.unwrap());
                if sender.send(path).is_err() {
                    return;
                }
            }
        });
        (endpoint, paths)
    }

    fn answer(mut stream: StdStream) -> String {
        let mut head = Vec::new();
        // The bodies of the test have one byte.
        while !head.windows(4).rev().skip(1).any(|end| end == b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        let path = String::from_utf8_lossy(&head).split(' ').nth(1).unwrap().to_owned();
        let status = if path == "/v1/logs" { "503 Service Unavailable" } else { "200 OK" };
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").unwrap();
        path
    }

    #[test]
    fn metrics_are_sent_while_the_collector_refuses_findings() {
        let (endpoint, paths) = collector();
        let outbox = Outbox::default();
        outbox.add_logs(vec![1]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut seen = Vec::new();
        runtime.block_on(async {
            let next = async {
                while seen.len() < 4 {
                    if let Ok(path) = paths.try_recv() {
                        seen.push(path);
                        outbox.set_metrics(vec![2]);
                    }
                    sleep(Duration::from_millis(10)).await;
                }
            };
            // The findings are not tried again meanwhile.
            tokio::select! {
                () = deliver_all(&endpoint, &outbox, Duration::from_secs(3600)) => {}
                () = next => {}
            }
        });
        assert_eq!(seen, ["/v1/logs", "/v1/metrics", "/v1/metrics", "/v1/metrics"]);
    }
}
