//! What each path answers, from the last metrics.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};

use super::LatestMetrics;
use crate::report::openmetrics::{self, Format};

const PLAIN: &str = "text/plain; charset=utf-8";

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

/// OpenMetrics where the client asks for it and prefers it to the text format (RFC 9110, 12.5.1).
fn accepted_format(headers: &HeaderMap) -> Format {
    let ranges = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let (mut open_metrics, mut text) = (0.0_f64, 0.0_f64);
    for range in ranges {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let quality = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |number| number.parse::<f64>().ok());
        let quality = quality.unwrap_or(0.0);
        if name.eq_ignore_ascii_case("application/openmetrics-text") {
            open_metrics = open_metrics.max(quality);
        } else if name.eq_ignore_ascii_case("text/plain") {
            text = text.max(quality);
        }
    }
    if open_metrics > 0.0 && open_metrics >= text { Format::OpenMetrics } else { Format::Text }
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
            (Some("text/html,*/*;q=0.8"), Format::Text),
            (Some(",;,q=;;"), Format::Text),
            (None, Format::Text),
        ] {
            assert_eq!(format(accept), expected, "{accept:?}");
        }
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
