package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/bytedance/sonic"
)

const (
	maxEvents  = 1000
	maxBatchID = 100
)

var (
	types      = map[string]bool{"request": true, "query": true, "job": true, "exception": true, "log": true, "metric": true}
	severities = map[string]bool{"debug": true, "info": true, "warning": true, "error": true, "critical": true}
	alphabet   = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)
	sealKey    = []byte("a key of 32 bytes for the seals.")
	// Strings stay parts of the body, and UTF-8 is checked, as it is by the edge.
	decoder = sonic.Config{ValidateString: true, NoValidateJSONSkip: false}.Froze()
)

// event has the fields of the public API. Members of free form are checked, but not built.
type event struct {
	Type          string          `json:"type"`
	ID            *string         `json:"id"`
	Severity      *string         `json:"severity"`
	Name          *string         `json:"name"`
	Title         *string         `json:"title"`
	Timestamp     *string         `json:"timestamp"`
	TraceID       *string         `json:"trace_id"`
	SpanID        *string         `json:"span_id"`
	ParentSpanID  *string         `json:"parent_span_id"`
	Route         *string         `json:"route"`
	URL           *string         `json:"url"`
	Service       *string         `json:"service"`
	StatusCode    *int64          `json:"status_code"`
	DurationMs    *float64        `json:"duration_ms"`
	Fingerprint   *string         `json:"fingerprint"`
	AffectedUsers *int64          `json:"affected_users"`
	Details       *string         `json:"details"`
	Attributes    json.RawMessage `json:"attributes"`
	Payload       json.RawMessage `json:"payload"`
}

type batch struct {
	BatchID string  `json:"batch_id"`
	Events  []event `json:"events"`
}

func decodeBatch(body []byte) (*batch, error) {
	decoded := new(batch)
	if err := decoder.Unmarshal(body, decoded); err != nil {
		return nil, &problem{http.StatusUnprocessableEntity, "the body is not valid"}
	}
	if decoded.BatchID == "" || len([]rune(decoded.BatchID)) > maxBatchID {
		return nil, &problem{http.StatusUnprocessableEntity, "batch_id must have 1 to 100 characters"}
	}
	if len(decoded.Events) == 0 || len(decoded.Events) > maxEvents {
		return nil, &problem{http.StatusUnprocessableEntity, "events must have 1 to 1,000 items"}
	}
	for index := range decoded.Events {
		if err := check(&decoded.Events[index]); err != nil {
			return nil, &problem{http.StatusUnprocessableEntity, fmt.Sprintf("events[%d]: %s", index, err)}
		}
	}
	return decoded, nil
}

func check(e *event) error {
	if !types[e.Type] {
		return fmt.Errorf("type %q is not known", e.Type)
	}
	if e.Severity != nil && !severities[*e.Severity] {
		return fmt.Errorf("severity %q is not known", *e.Severity)
	}
	if e.Timestamp != nil {
		if _, err := time.Parse(time.RFC3339Nano, *e.Timestamp); err != nil {
			return fmt.Errorf("timestamp must be an RFC 3339 date-time")
		}
	}
	for _, member := range []json.RawMessage{e.Attributes, e.Payload} {
		if len(member) > 0 && member[0] != '{' && !bytes.Equal(member, []byte("null")) {
			return fmt.Errorf("attributes and payload must be objects")
		}
	}
	return nil
}

// receipt returns the name of the batch, and the ID with a seal that proves who issued it.
func receipt(environment, batchID string) (string, string) {
	digest := sha256.Sum256([]byte(environment + "\x00" + batchID))
	name := "rcp_" + alphabet.EncodeToString(digest[:15])
	mac := hmac.New(sha256.New, sealKey)
	mac.Write([]byte(environment + "\x00" + name))
	return name, name + alphabet.EncodeToString(mac.Sum(nil)[:5])
}

type accepted struct {
	ID       string `json:"id"`
	BatchID  string `json:"batch_id"`
	Status   string `json:"status"`
	Received int    `json:"received"`
	URL      string `json:"url"`
}

func (e *edge) ingest(topic string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := e.acceptBatch(r, topic)
		if err != nil {
			refuse(w, err)
			return
		}
		respond(w, http.StatusAccepted, "application/json", body)
	}
}

func (e *edge) acceptBatch(r *http.Request, topic string) ([]byte, error) {
	received := time.Now()
	account, err := e.authenticate(r)
	if err != nil {
		return nil, err
	}
	if r.Header.Get("Content-Type") != "application/json" {
		return nil, &problem{http.StatusUnsupportedMediaType, "the body must be application/json"}
	}
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	decoded, err := decodeBatch(body)
	if err != nil {
		return nil, err
	}
	if err := account.take(len(decoded.Events)); err != nil {
		return nil, err
	}
	name, id := receipt(account.environment, decoded.BatchID)
	meta := fmt.Appendf(nil, "%s|%d|%d|%s", account.environment, received.UnixMilli(), len(decoded.Events), decoded.BatchID)
	if err := e.store(r.Context(), topic, []byte(name), meta, body); err != nil {
		return nil, err
	}
	answer := accepted{id, decoded.BatchID, "queued", len(decoded.Events), "/api/v1/ingest/receipts/" + id}
	return sonic.Marshal(map[string]accepted{"data": answer})
}
