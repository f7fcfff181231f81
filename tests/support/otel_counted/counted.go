package main

import (
	"context"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// sendCounted sends 200 spans, 100 log records and 10 metric points.
func sendCounted(traces trace.TracerProvider, logs log.LoggerProvider, metrics metric.MeterProvider) {
	tracer := traces.Tracer("counted")
	logger := slog.New(otelslog.NewHandler("counted", otelslog.WithLoggerProvider(logs)))
	for number := 1; number <= 200; number++ {
		ctx, span := tracer.Start(context.Background(), "counted")
		if number <= 100 {
			logger.InfoContext(ctx, fmt.Sprintf("counted %d", number))
		}
		span.End()
	}
	orders, err := metrics.Meter("counted").Int64Counter("counted.orders")
	exitOn(err)
	for number := 1; number <= 10; number++ {
		orders.Add(context.Background(), int64(number), metric.WithAttributes(attribute.Int("number", number)))
	}
}
