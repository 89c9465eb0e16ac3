//! What each path answers, from the last metrics.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};

use super::LatestMetrics;
use crate::report::openmetrics::{self, Format};

const PLAIN: &str = "text/plain; charset=utf-8";

#[cfg(feature = "native-histograms")]
const PROTOBUF: Option<Format> = Some(Format::Protobuf);
#[cfg(not(feature = "native-histograms"))]
const PROTOBUF: Option<Format> = None;

const FIRST_PAGE: &str = "<!doctype html><title>stalltop</title>\
                          <p>stalltop serves <a href=\"/metrics\">metrics</a>; <a href=\"/-/healthy\">health</a></p>\n";

/// The answer to a request. `headers`: of the request.
pub fn respond(method: &Method, path: &str, headers: &HeaderMap, latest: &LatestMetrics) -> Response<Full<Bytes>> {
    if method != Method::GET && method != Method::HEAD {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match path {
        "/metrics" => match latest.get() {
            Some(metrics) => {
                let format = accepted_format(headers);
                response(StatusCode::OK, openmetrics::content_type(format), metrics.body(format))
            }
            None => text(StatusCode::SERVICE_UNAVAILABLE, "no interval yet: try again in a second\n"),
        },
        "/-/healthy" => match latest.health() {
            Ok(()) => text(StatusCode::OK, "samples come\n"),
            Err(why) => response(StatusCode::SERVICE_UNAVAILABLE, PLAIN, Bytes::from(format!("{why}\n"))),
        },
        "/" => response(StatusCode::OK, "text/html; charset=utf-8", Bytes::from_static(FIRST_PAGE.as_bytes())),
        _ => text(StatusCode::NOT_FOUND, "not found: the metrics are at /metrics\n"),
    }
}

/// A line of text.
pub fn text(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    response(status, PLAIN, Bytes::from_static(body.as_bytes()))
}

fn response(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The format that the client prefers (RFC 9110, 12.5.1): the text format where it names none of ours, and the richest of those that
/// it likes as much.
fn accepted_format(headers: &HeaderMap) -> Format {
    let ranges = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let (mut best, mut best_quality) = (Format::Text, 0.0_f64);
    for range in ranges {
        let parts: Vec<&str> = range.split(';').map(str::trim).collect();
        let quality = parts.iter().find_map(|part| part.strip_prefix("q=")).map_or(Ok(1.0), str::parse::<f64>);
        let (Some(format), Ok(quality)) = (format_named(&parts), quality) else { continue };
        if quality > best_quality || (quality == best_quality && quality > 0.0 && format > best) {
            (best, best_quality) = (format, quality);
        }
    }
    best
}

/// The format of a media type with its parameters.
fn format_named(parts: &[&str]) -> Option<Format> {
    let (name, parameters) = parts.split_first()?;
    match name.to_ascii_lowercase().as_str() {
        "text/plain" => Some(Format::Text),
        "application/openmetrics-text" => Some(Format::OpenMetrics),
        "application/vnd.google.protobuf" => {
            let has = |parameter| parameters.contains(&parameter);
            PROTOBUF.filter(|_| has("proto=io.prometheus.client.MetricFamily") && has("encoding=delimited"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn format(accept: Option<&'static str>) -> Format {
        let mut headers = HeaderMap::new();
        if let Some(accept) = accept {
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
        }
        accepted_format(&headers)
    }

    #[test]
    fn the_client_chooses_the_format() {
        // Prometheus 2.42 and 3.
        let older = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                     text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let newer = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                     text/plain;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.2";
        for (accept, expected) in [
            (Some(older), Format::OpenMetrics),
            (Some(newer), Format::OpenMetrics),
            (Some("text/plain, application/openmetrics-text;q=0.5"), Format::Text),
            (Some("application/openmetrics-text;q=0"), Format::Text),
            (Some("application/openmetrics-text;q=x"), Format::Text),
            (Some("application/openmetrics-text;q=0.1,text/plain;q=0.1"), Format::OpenMetrics),
            (Some("application/openmetrics-text;q=NaN"), Format::Text),
            (Some("application/vnd.google.protobuf;encoding=text,text/plain;q=0.5"), Format::Text),
            (Some("text/html,*/*;q=0.8"), Format::Text),
            (Some(",;,q=;;"), Format::Text),
            (None, Format::Text),
        ] {
            assert_eq!(format(accept), expected, "{accept:?}");
        }
    }

    #[test]
    fn protobuf_is_sent_where_it_is_built_and_asked_for() {
        // Prometheus 2.42 with --enable-feature=native-histograms.
        let native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
                      application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,\
                      text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let name = openmetrics::content_type(format(Some(native)));
        assert_eq!(name.starts_with("application/vnd.google.protobuf"), cfg!(feature = "native-histograms"), "{name}");
        let other_message = "application/vnd.google.protobuf;proto=other;encoding=delimited,text/plain;q=0.5";
        assert_eq!(format(Some(other_message)), Format::Text);
    }

    #[test]
    fn each_path_has_its_answer() {
        let latest = LatestMetrics::new(Duration::from_secs(1));
        let status = |method: &Method, path: &str| respond(method, path, &HeaderMap::new(), &latest).status().as_u16();
        assert_eq!(status(&Method::GET, "/metrics"), 503, "before the first interval");
        assert_eq!(status(&Method::GET, "/-/healthy"), 503);
        latest.set(Vec::new());
        for (method, path, expected) in [
            (Method::GET, "/metrics", 200),
            (Method::HEAD, "/metrics", 200),
            (Method::GET, "/-/healthy", 200),
            (Method::GET, "/", 200),
            (Method::GET, "/metrics/../etc/passwd", 404),
            (Method::POST, "/metrics", 405),
            (Method::DELETE, "/", 405),
        ] {
            assert_eq!(status(&method, path), expected, "{method} {path}");
        }
    }
}
