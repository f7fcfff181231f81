//! OTLP in protobuf and JSON.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::http::{header, HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use prost::Message;
use serde::de::DeserializeOwned;

use crate::{now_ms, read_body, Edge, Problem};

/// Returns the number of records in a body; the second argument is true for JSON.
type Count = fn(&[u8], bool) -> Result<usize, Problem>;

static NUMBER: AtomicU64 = AtomicU64::new(0);

fn decode<M: Message + Default + DeserializeOwned>(
    body: &[u8],
    is_json: bool,
) -> Result<M, Problem> {
    let invalid = |detail: String| Problem(StatusCode::BAD_REQUEST, detail);
    if is_json {
        return serde_json::from_slice(body).map_err(|error| invalid(error.to_string()));
    }
    M::decode(body).map_err(|error| invalid(error.to_string()))
}

pub fn count_spans(body: &[u8], is_json: bool) -> Result<usize, Problem> {
    let request: ExportTraceServiceRequest = decode(body, is_json)?;
    let scopes = request
        .resource_spans
        .iter()
        .flat_map(|resource| &resource.scope_spans);
    Ok(scopes.map(|scope| scope.spans.len()).sum())
}

pub fn count_logs(body: &[u8], is_json: bool) -> Result<usize, Problem> {
    let request: ExportLogsServiceRequest = decode(body, is_json)?;
    let scopes = request
        .resource_logs
        .iter()
        .flat_map(|resource| &resource.scope_logs);
    Ok(scopes.map(|scope| scope.log_records.len()).sum())
}

pub fn count_points(body: &[u8], is_json: bool) -> Result<usize, Problem> {
    let request: ExportMetricsServiceRequest = decode(body, is_json)?;
    let scopes = request
        .resource_metrics
        .iter()
        .flat_map(|resource| &resource.scope_metrics);
    let data = scopes
        .flat_map(|scope| &scope.metrics)
        .filter_map(|metric| metric.data.as_ref());
    Ok(data
        .map(|data| match data {
            Data::Gauge(kind) => kind.data_points.len(),
            Data::Sum(kind) => kind.data_points.len(),
            Data::Histogram(kind) => kind.data_points.len(),
            Data::ExponentialHistogram(kind) => kind.data_points.len(),
            Data::Summary(kind) => kind.data_points.len(),
        })
        .sum())
}

pub async fn accept(
    edge: &'static Edge,
    topic: &'static str,
    count: Count,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let is_json = headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value == "application/json");
    match try_accept(edge, topic, count, headers, body, is_json).await {
        // An empty response of the export service: nothing was rejected.
        Ok(()) if is_json => (
            StatusCode::OK,
            [(header::CONTENT_TYPE, "application/json")],
            "{}",
        )
            .into_response(),
        Ok(()) => (
            StatusCode::OK,
            [(header::CONTENT_TYPE, "application/x-protobuf")],
            "",
        )
            .into_response(),
        Err(problem) => problem.into_response(),
    }
}

async fn try_accept(
    edge: &'static Edge,
    topic: &'static str,
    count: Count,
    headers: HeaderMap,
    body: Body,
    is_json: bool,
) -> Result<(), Problem> {
    let received = now_ms();
    let account = edge.authenticate(&headers)?;
    if !is_json
        && headers
            .get(header::CONTENT_TYPE)
            .is_none_or(|value| value != "application/x-protobuf")
    {
        return Err(Problem(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body must be OTLP in JSON or protobuf".into(),
        ));
    }
    let body = read_body(body).await?;
    let records = count(&body, is_json)?;
    account.take(records)?;
    let meta = format!("{}|{received}|{records}", account.environment);
    let key = NUMBER.fetch_add(1, Ordering::Relaxed).to_string();
    edge.store(topic, &key, &meta, &body).await
}
