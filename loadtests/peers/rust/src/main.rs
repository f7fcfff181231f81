//! The Rust peer of `make bench-peers`: the edge's work with axum, librdkafka, serde and prost, and nothing else.
//!
//! It answers POST /api/v1/ingest and POST /api/v1/otlp/v1/{traces,logs,metrics} once the brokers have acknowledged the
//! body. Like the edge it checks the key, the content type and the size, decodes the body and validates its fields,
//! takes the account's tokens, and seals a receipt.

mod ingest;
mod otlp;

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::body::{to_bytes, Body, Bytes};
use axum::extract::DefaultBodyLimit;
use axum::http::{header, HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::Router;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::ClientConfig;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::io::AsyncReadExt;

const MAX_BODY_BYTES: usize = 5 << 20;
const RATE: f64 = 1e9;

/// Settings, as JSON in the first argument.
#[derive(Deserialize)]
struct Settings {
    bootstrap: String,
    key: String,
    ingest_topic: String,
    traces_topic: String,
    logs_topic: String,
    metrics_topic: String,
}

/// The owner of a key, with its token bucket.
pub struct Account {
    digest: [u8; 32],
    pub environment: String,
    bucket: Mutex<(f64, Instant)>,
}

/// The state that all handlers share.
pub struct Edge {
    producer: FutureProducer,
    keys: HashMap<[u8; 32], Account>,
    settings: Settings,
}

/// An error response with its HTTP status.
pub struct Problem(pub StatusCode, pub String);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::json!({"status": self.0.as_u16(), "detail": self.1}).to_string();
        (
            self.0,
            [(header::CONTENT_TYPE, "application/problem+json")],
            body,
        )
            .into_response()
    }
}

impl Account {
    pub fn take(&self, events: usize) -> Result<(), Problem> {
        let mut bucket = self.bucket.lock().unwrap();
        let now = Instant::now();
        bucket.0 = RATE.min(bucket.0 + now.duration_since(bucket.1).as_secs_f64() * RATE);
        bucket.1 = now;
        if bucket.0 < events as f64 {
            return Err(Problem(
                StatusCode::TOO_MANY_REQUESTS,
                "too many events".into(),
            ));
        }
        bucket.0 -= events as f64;
        Ok(())
    }
}

impl Edge {
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<&Account, Problem> {
        let refused = || Problem(StatusCode::UNAUTHORIZED, "this key is not known".into());
        let value = headers.get(header::AUTHORIZATION).ok_or_else(refused)?;
        let key = value
            .as_bytes()
            .strip_prefix(b"Bearer ")
            .ok_or_else(refused)?;
        let digest: [u8; 32] = Sha256::digest(key).into();
        let account = self.keys.get(&digest).ok_or_else(refused)?;
        if !bool::from(account.digest.ct_eq(&digest)) {
            return Err(refused());
        }
        Ok(account)
    }

    /// Append one record and wait until all in-sync replicas have it.
    pub async fn store(
        &self,
        topic: &str,
        key: &str,
        meta: &str,
        body: &[u8],
    ) -> Result<(), Problem> {
        let headers = OwnedHeaders::new().insert(Header {
            key: "pharos",
            value: Some(meta),
        });
        let record = FutureRecord::to(topic)
            .key(key)
            .payload(body)
            .headers(headers);
        match self.producer.send(record, Duration::from_secs(10)).await {
            Ok(_) => Ok(()),
            Err((error, _)) => Err(Problem(StatusCode::SERVICE_UNAVAILABLE, error.to_string())),
        }
    }
}

pub async fn read_body(body: Body) -> Result<Bytes, Problem> {
    to_bytes(body, MAX_BODY_BYTES).await.map_err(|_| {
        Problem(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body cannot be read".into(),
        )
    })
}

pub fn now_ms() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis()
}

#[tokio::main]
async fn main() {
    let given: Settings =
        serde_json::from_str(&std::env::args().nth(1).expect("settings")).expect("settings");
    let producer = ClientConfig::new()
        .set("bootstrap.servers", &given.bootstrap)
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("linger.ms", "5")
        .set("compression.codec", "zstd")
        .set("compression.level", "1")
        .create()
        .expect("a producer");
    let digest: [u8; 32] = Sha256::digest(given.key.as_bytes()).into();
    let account = Account {
        digest,
        environment: "env_01jz0000000000000000000000".into(),
        bucket: Mutex::new((0.0, Instant::now() - Duration::from_secs(1))),
    };
    let edge: &'static Edge = Box::leak(Box::new(Edge {
        producer,
        keys: HashMap::from([(digest, account)]),
        settings: given,
    }));
    let app = Router::new()
        .route(
            "/api/v1/ingest",
            post(move |headers, body| {
                ingest::accept(edge, &edge.settings.ingest_topic, headers, body)
            }),
        )
        .route(
            "/api/v1/otlp/v1/traces",
            post(move |headers, body| {
                otlp::accept(
                    edge,
                    &edge.settings.traces_topic,
                    otlp::count_spans,
                    headers,
                    body,
                )
            }),
        )
        .route(
            "/api/v1/otlp/v1/logs",
            post(move |headers, body| {
                otlp::accept(
                    edge,
                    &edge.settings.logs_topic,
                    otlp::count_logs,
                    headers,
                    body,
                )
            }),
        )
        .route(
            "/api/v1/otlp/v1/metrics",
            post(move |headers, body| {
                otlp::accept(
                    edge,
                    &edge.settings.metrics_topic,
                    otlp::count_points,
                    headers,
                    body,
                )
            }),
        )
        .layer(DefaultBodyLimit::disable());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    println!("{{\"port\":{}}}", listener.local_addr().unwrap().port());
    tokio::spawn(async {
        // The benchmark keeps this pipe open as long as it runs.
        let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
        std::process::exit(0);
    });
    axum::serve(listener, app).await.expect("a server");
}
