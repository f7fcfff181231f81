//! Batches of events.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{header, HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use chrono::DateTime;
use hmac::{Hmac, Mac};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::{now_ms, read_body, Account, Edge, Problem};

const MAX_EVENTS: usize = 1000;
const MAX_BATCH_ID: usize = 100;
const SEAL_KEY: &[u8] = b"a key of 32 bytes for the seals.";

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Type {
    Request,
    Query,
    Job,
    Exception,
    Log,
    Metric,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Debug,
    Info,
    Warning,
    Error,
    Critical,
}

/// An event with the fields of the public API. Members of free form are checked, but not built.
#[derive(Deserialize)]
#[allow(dead_code)]
struct Event<'a> {
    r#type: Type,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    severity: Option<Severity>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    title: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "timestamp")]
    timestamp: Option<i64>,
    #[serde(borrow)]
    trace_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    span_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    parent_span_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    route: Option<Cow<'a, str>>,
    #[serde(borrow)]
    url: Option<Cow<'a, str>>,
    #[serde(borrow)]
    service: Option<Cow<'a, str>>,
    status_code: Option<i64>,
    duration_ms: Option<f64>,
    #[serde(borrow)]
    fingerprint: Option<Cow<'a, str>>,
    affected_users: Option<i64>,
    #[serde(borrow)]
    details: Option<Cow<'a, str>>,
    #[serde(borrow)]
    attributes: Option<&'a RawValue>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Batch<'a> {
    #[serde(borrow)]
    batch_id: Cow<'a, str>,
    #[serde(borrow)]
    events: Vec<Event<'a>>,
}

fn timestamp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let Some(text) = Option::<Cow<'de, str>>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let time = DateTime::parse_from_rfc3339(&text).map_err(serde::de::Error::custom)?;
    Ok(Some(time.timestamp_micros()))
}

fn decode(body: &[u8]) -> Result<Batch<'_>, Problem> {
    let invalid = |detail: String| Problem(StatusCode::UNPROCESSABLE_ENTITY, detail);
    let batch: Batch = serde_json::from_slice(body).map_err(|error| invalid(error.to_string()))?;
    if batch.batch_id.is_empty() || batch.batch_id.chars().count() > MAX_BATCH_ID {
        return Err(invalid("batch_id must have 1 to 100 characters".into()));
    }
    if batch.events.is_empty() || batch.events.len() > MAX_EVENTS {
        return Err(invalid("events must have 1 to 1,000 items".into()));
    }
    for event in &batch.events {
        for member in [event.attributes, event.payload].into_iter().flatten() {
            if !member.get().starts_with('{') {
                return Err(invalid("attributes and payload must be objects".into()));
            }
        }
    }
    Ok(batch)
}

/// The name of the batch, and the ID with a seal that proves who issued it.
fn receipt(account: &Account, batch_id: &str) -> (String, String) {
    let mut hash = Sha256::new();
    hash.update(&account.environment);
    hash.update(b"\0");
    hash.update(batch_id);
    let name = format!("rcp_{}", encode(&hash.finalize()[..15]));
    let mut mac = Hmac::<Sha256>::new_from_slice(SEAL_KEY).expect("a key of any length");
    mac.update(account.environment.as_bytes());
    mac.update(b"\0");
    mac.update(name.as_bytes());
    let id = format!("{name}{}", encode(&mac.finalize().into_bytes()[..5]));
    (name, id)
}

fn encode(bytes: &[u8]) -> String {
    base32::encode(base32::Alphabet::Crockford, bytes).to_lowercase()
}

#[derive(Serialize)]
struct Accepted<'a> {
    id: &'a str,
    batch_id: &'a str,
    status: &'a str,
    received: usize,
    url: String,
}

#[derive(Serialize)]
struct Answer<'a> {
    data: Accepted<'a>,
}

pub async fn accept(
    edge: &'static Edge,
    topic: &'static str,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match try_accept(edge, topic, headers, body).await {
        Ok(answer) => (
            StatusCode::ACCEPTED,
            [(header::CONTENT_TYPE, "application/json")],
            answer,
        )
            .into_response(),
        Err(problem) => problem.into_response(),
    }
}

async fn try_accept(
    edge: &'static Edge,
    topic: &'static str,
    headers: HeaderMap,
    body: Body,
) -> Result<Vec<u8>, Problem> {
    let received = now_ms();
    let account = edge.authenticate(&headers)?;
    if headers
        .get(header::CONTENT_TYPE)
        .is_none_or(|value| value != "application/json")
    {
        return Err(Problem(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body must be application/json".into(),
        ));
    }
    let body = read_body(body).await?;
    let (batch_id, count) = {
        let batch = decode(&body)?;
        (batch.batch_id.into_owned(), batch.events.len())
    };
    account.take(count)?;
    let (name, id) = receipt(account, &batch_id);
    let meta = format!("{}|{received}|{count}|{batch_id}", account.environment);
    edge.store(topic, &name, &meta, &body).await?;
    let url = format!("/api/v1/ingest/receipts/{id}");
    let data = Accepted {
        id: &id,
        batch_id: &batch_id,
        status: "queued",
        received: count,
        url,
    };
    Ok(serde_json::to_vec(&Answer { data }).expect("plain values"))
}
