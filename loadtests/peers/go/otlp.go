package main

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// decode returns the number of records in an OTLP body.
type decode func(body []byte, isJSON bool) (int, error)

func decodeTraces(body []byte, isJSON bool) (int, error) {
	request := ptraceotlp.NewExportRequest()
	if isJSON {
		err := request.UnmarshalJSON(body)
		return request.Traces().SpanCount(), err
	}
	err := request.UnmarshalProto(body)
	return request.Traces().SpanCount(), err
}

func decodeLogs(body []byte, isJSON bool) (int, error) {
	request := plogotlp.NewExportRequest()
	if isJSON {
		err := request.UnmarshalJSON(body)
		return request.Logs().LogRecordCount(), err
	}
	err := request.UnmarshalProto(body)
	return request.Logs().LogRecordCount(), err
}

func decodeMetrics(body []byte, isJSON bool) (int, error) {
	request := pmetricotlp.NewExportRequest()
	if isJSON {
		err := request.UnmarshalJSON(body)
		return request.Metrics().DataPointCount(), err
	}
	err := request.UnmarshalProto(body)
	return request.Metrics().DataPointCount(), err
}

var otlpNumber atomic.Uint64

func (e *edge) otlp(topic string, count decode) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		contentType := r.Header.Get("Content-Type")
		isJSON := contentType == "application/json"
		if err := e.acceptOtlp(r, topic, count, contentType); err != nil {
			refuse(w, err)
			return
		}
		// An empty response of the export service: nothing was rejected.
		body := []byte{}
		if isJSON {
			body = []byte("{}")
		}
		respond(w, http.StatusOK, contentType, body)
	}
}

func (e *edge) acceptOtlp(r *http.Request, topic string, count decode, contentType string) error {
	received := time.Now()
	account, err := e.authenticate(r)
	if err != nil {
		return err
	}
	if contentType != "application/json" && contentType != "application/x-protobuf" {
		return &problem{http.StatusUnsupportedMediaType, "the body must be OTLP in JSON or protobuf"}
	}
	body, err := readBody(r)
	if err != nil {
		return err
	}
	records, err := count(body, contentType == "application/json")
	if err != nil {
		return &problem{http.StatusBadRequest, "the body is not valid"}
	}
	if err := account.take(records); err != nil {
		return err
	}
	meta := fmt.Appendf(nil, "%s|%d|%d", account.environment, received.UnixMilli(), records)
	key := fmt.Appendf(nil, "%d", otlpNumber.Add(1))
	return e.store(r.Context(), topic, key, meta, body)
}
