// The Go peer of `make bench-peers`: the edge's work with net/http, franz-go, sonic and pdata, and nothing else.
//
// It answers POST /api/v1/ingest and POST /api/v1/otlp/v1/{traces,logs,metrics} once the brokers have acknowledged the
// body. Like the edge it checks the key, the content type and the size, decodes the body and validates its fields,
// takes the account's tokens, and seals a receipt.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	maxBodyBytes = 5 << 20
	accountRate  = 1e9
)

// settings come as JSON in the first argument.
type settings struct {
	Bootstrap string `json:"bootstrap"`
	Key       string `json:"key"`
	Ingest    string `json:"ingest_topic"`
	Traces    string `json:"traces_topic"`
	Logs      string `json:"logs_topic"`
	Metrics   string `json:"metrics_topic"`
}

// edge is the state that all handlers share.
type edge struct {
	client *kgo.Client
	keys   map[[sha256.Size]byte]*account
}

// account is the owner of a key, with its token bucket.
type account struct {
	digest      [sha256.Size]byte
	environment string
	lock        sync.Mutex
	tokens      float64
	filledAt    time.Time
}

// problem is an error response with its HTTP status.
type problem struct {
	status int
	detail string
}

func (p *problem) Error() string { return p.detail }

func (a *account) take(events int) error {
	a.lock.Lock()
	defer a.lock.Unlock()
	now := time.Now()
	a.tokens = min(accountRate, a.tokens+now.Sub(a.filledAt).Seconds()*accountRate)
	a.filledAt = now
	if a.tokens < float64(events) {
		return &problem{http.StatusTooManyRequests, "too many events"}
	}
	a.tokens -= float64(events)
	return nil
}

func (e *edge) authenticate(r *http.Request) (*account, error) {
	key, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found {
		return nil, &problem{http.StatusUnauthorized, "send a key"}
	}
	digest := sha256.Sum256([]byte(key))
	account := e.keys[digest]
	if account == nil || subtle.ConstantTimeCompare(account.digest[:], digest[:]) != 1 {
		return nil, &problem{http.StatusUnauthorized, "this key is not known"}
	}
	return account, nil
}

// readBody returns the whole body, in one allocation if its length is declared.
func readBody(r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBodyBytes {
		return nil, &problem{http.StatusRequestEntityTooLarge, "the body is too large"}
	}
	if r.ContentLength >= 0 {
		body := make([]byte, r.ContentLength)
		_, err := io.ReadFull(r.Body, body)
		return body, err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBodyBytes+1))
	if len(body) > maxBodyBytes {
		return nil, &problem{http.StatusRequestEntityTooLarge, "the body is too large"}
	}
	return body, err
}

// store appends one record and waits until all in-sync replicas have it.
func (e *edge) store(ctx context.Context, topic string, key, meta, body []byte) error {
	record := &kgo.Record{
		Topic:   topic,
		Key:     key,
		Value:   body,
		Headers: []kgo.RecordHeader{{Key: "pharos", Value: meta}},
	}
	done := make(chan error, 1)
	e.client.Produce(ctx, record, func(_ *kgo.Record, err error) { done <- err })
	if err := <-done; err != nil {
		return &problem{http.StatusServiceUnavailable, "the event log cannot be written"}
	}
	return nil
}

func respond(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func refuse(w http.ResponseWriter, err error) {
	status := http.StatusBadRequest
	var known *problem
	if errors.As(err, &known) {
		status = known.status
	}
	body, _ := json.Marshal(map[string]any{"status": status, "detail": err.Error()})
	respond(w, status, "application/problem+json", body)
}

func main() {
	var given settings
	if err := json.Unmarshal([]byte(os.Args[1]), &given); err != nil {
		log.Fatal(err)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(given.Bootstrap, ",")...),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(5*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.ZstdCompression().WithLevel(1)),
	)
	if err != nil {
		log.Fatal(err)
	}
	digest := sha256.Sum256([]byte(given.Key))
	first := &account{digest: digest, environment: "env_01jz0000000000000000000000", filledAt: time.Now()}
	e := &edge{client, map[[sha256.Size]byte]*account{digest: first}}

	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/ingest", e.ingest(given.Ingest))
	mux.HandleFunc("POST /api/v1/otlp/v1/traces", e.otlp(given.Traces, decodeTraces))
	mux.HandleFunc("POST /api/v1/otlp/v1/logs", e.otlp(given.Logs, decodeLogs))
	mux.HandleFunc("POST /api/v1/otlp/v1/metrics", e.otlp(given.Metrics, decodeMetrics))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		// The benchmark keeps this pipe open as long as it runs.
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Printf("{\"port\":%d}\n", listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.Serve(listener, mux))
}
