//! Validates bodies of telemetry for Pharos' ingest edge in one pass, without building objects.
//!
//! For a body that is entirely valid and needs no repair, a function returns the values that the
//! edge needs. Otherwise it returns `None` for "not sure". It never refuses a body: Python's
//! decoders do that, and create the error messages.

#![forbid(unsafe_code)]

mod batch;
mod json;
mod measure;
mod number;
mod otlp_json;
mod otlp_protobuf;
mod seen;
mod specials;
mod text;
mod timestamp;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use measure::Measure;

/// The version of the functions' arguments, results and rules. Python uses a module only if it has the version that it
/// expects.
const INTERFACE: u32 = 1;

static PANICS: AtomicU64 = AtomicU64::new(0);

/// (records, bytes that their rows repeat, children, numbers), as in `Measure`.
type Measured = (u64, u64, u64, u64);

/// A limit. A limit that does not fit into the type becomes 0, with which no body is validated.
struct Limit(usize);

impl<'py> FromPyObject<'_, 'py> for Limit {
    type Error = PyErr;

    fn extract(number: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Limit(number.extract().unwrap_or(0)))
    }
}

/// Validates the bytes of a body. A panic, or a body that is not `bytes`, counts as "not sure".
fn validate<'py, T>(
    body: &'py Bound<'_, PyAny>,
    decide: impl FnOnce(&'py [u8]) -> Option<T>,
) -> Option<T> {
    let bytes = body.cast::<PyBytes>().ok()?.as_bytes();
    catch_unwind(AssertUnwindSafe(|| decide(bytes))).unwrap_or_else(|_| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        None
    })
}

fn measure(
    body: &Bound<'_, PyAny>,
    decide: impl FnOnce(&[u8]) -> Option<Measure>,
) -> Option<Measured> {
    let measure = validate(body, decide)?;
    Some((
        measure.records,
        measure.shared_bytes,
        measure.children,
        measure.numbers,
    ))
}

/// Return (batch ID, number of events) of a valid batch; None: not sure.
#[pyfunction]
#[pyo3(signature = (body, event_bytes, batch_events, /))]
fn validate_batch(
    body: &Bound<'_, PyAny>,
    event_bytes: Limit,
    batch_events: Limit,
) -> Option<(String, usize)> {
    validate(body, |bytes| {
        let batch = batch::validate_batch(bytes, event_bytes.0, batch_events.0)?;
        Some((batch.id.into_owned(), batch.events))
    })
}

/// Measure a request whose spans are all valid; None: not sure. The same for the functions below.
#[pyfunction]
#[pyo3(signature = (body, max_records, /))]
fn validate_traces_json(body: &Bound<'_, PyAny>, max_records: Limit) -> Option<Measured> {
    measure(body, |bytes| {
        otlp_json::validate_traces(bytes, max_records.0 as u64)
    })
}

#[pyfunction]
#[pyo3(signature = (body, max_records, record_bytes, /))]
fn validate_logs_json(
    body: &Bound<'_, PyAny>,
    max_records: Limit,
    record_bytes: Limit,
) -> Option<Measured> {
    measure(body, |bytes| {
        otlp_json::validate_logs(bytes, max_records.0 as u64, record_bytes.0)
    })
}

#[pyfunction]
#[pyo3(signature = (body, max_records, /))]
fn validate_metrics_json(body: &Bound<'_, PyAny>, max_records: Limit) -> Option<Measured> {
    measure(body, |bytes| {
        otlp_json::validate_metrics(bytes, max_records.0 as u64)
    })
}

#[pyfunction]
#[pyo3(signature = (body, max_records, max_groups, /))]
fn validate_traces_protobuf(
    body: &Bound<'_, PyAny>,
    max_records: Limit,
    max_groups: Limit,
) -> Option<Measured> {
    let limits = otlp_protobuf::Limits {
        records: max_records.0 as u64,
        groups: max_groups.0,
    };
    measure(body, |bytes| otlp_protobuf::validate_traces(bytes, limits))
}

#[pyfunction]
#[pyo3(signature = (body, max_records, max_groups, record_bytes, /))]
fn validate_logs_protobuf(
    body: &Bound<'_, PyAny>,
    max_records: Limit,
    max_groups: Limit,
    record_bytes: Limit,
) -> Option<Measured> {
    let limits = otlp_protobuf::Limits {
        records: max_records.0 as u64,
        groups: max_groups.0,
    };
    measure(body, |bytes| {
        otlp_protobuf::validate_logs(bytes, limits, record_bytes.0)
    })
}

#[pyfunction]
#[pyo3(signature = (body, max_records, max_groups, /))]
fn validate_metrics_protobuf(
    body: &Bound<'_, PyAny>,
    max_records: Limit,
    max_groups: Limit,
) -> Option<Measured> {
    let limits = otlp_protobuf::Limits {
        records: max_records.0 as u64,
        groups: max_groups.0,
    };
    measure(body, |bytes| otlp_protobuf::validate_metrics(bytes, limits))
}

/// Return the number of bodies that a defect in this module kept it from validating.
#[pyfunction]
fn count_panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

#[pymodule]
fn pharos_accelerator(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Does not print the panic's message, which may contain a part of a body.
    std::panic::set_hook(Box::new(|panic| {
        if let Some(place) = panic.location() {
            eprintln!("pharos_accelerator: a defect at {place}; Python validates the body");
        }
    }));
    module.add("INTERFACE", INTERFACE)?;
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(count_panics, module)?)?;
    module.add_function(wrap_pyfunction!(validate_batch, module)?)?;
    module.add_function(wrap_pyfunction!(validate_traces_json, module)?)?;
    module.add_function(wrap_pyfunction!(validate_logs_json, module)?)?;
    module.add_function(wrap_pyfunction!(validate_metrics_json, module)?)?;
    module.add_function(wrap_pyfunction!(validate_traces_protobuf, module)?)?;
    module.add_function(wrap_pyfunction!(validate_logs_protobuf, module)?)?;
    module.add_function(wrap_pyfunction!(validate_metrics_protobuf, module)?)
}
