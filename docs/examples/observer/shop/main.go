// Command shop is a small service whose telemetry can be switched while it runs,
// to measure what watching it costs. A request reads a cart, adds it up, and
// writes JSON: a few microseconds of work in three steps.
//
//	shop -listen 127.0.0.1:28580 -to 127.0.0.1:28582
//	shop -listen 127.0.0.1:28580 switch spans
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	nometric "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	notrace "go.opentelemetry.io/otel/trace/noop"
)

// modes are what the service tells of a request: nothing; its latency in
// histograms; a span for it and one for each step, of one request in ten or of
// all; or histograms and all spans.
var modes = []string{"off", "histograms", "tenth", "spans", "both"}

func main() {
	listen := flag.String("listen", "127.0.0.1:28580", "address to serve")
	to := flag.String("to", "127.0.0.1:28582", "OTLP over gRPC")
	flag.Parse()
	var err error
	if flag.Arg(0) == "switch" {
		err = change(*listen, flag.Arg(1))
	} else {
		err = serve(*listen, *to)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

// change asks a shop that runs for another mode.
func change(listen, mode string) error {
	resp, err := http.Post("http://"+listen+"/telemetry?mode="+mode, "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("telemetry %q: %s (hint: write one of %v)", mode, resp.Status, modes)
	}
	return nil
}

func serve(listen, to string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	res := resource.NewSchemaless(attribute.String("service.name", "shop"))
	spans, err := otlptracegrpc.New(ctx, otlptracegrpc.WithInsecure(), otlptracegrpc.WithEndpoint(to))
	if err != nil {
		return err
	}
	figures, err := otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithInsecure(), otlpmetricgrpc.WithEndpoint(to))
	if err != nil {
		return err
	}
	all := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(spans))
	tenth := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(spans), sdktrace.WithSampler(sdktrace.TraceIDRatioBased(0.1)))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithResource(res), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(figures, sdkmetric.WithInterval(5*time.Second))))
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = errors.Join(all.Shutdown(end), tenth.Shutdown(end), meters.Shutdown(end)) // the store may be gone already
	}()

	plain := cart(notrace.NewTracerProvider())
	watched := func(h http.Handler, t trace.TracerProvider, m bool) http.Handler {
		o := []otelhttp.Option{otelhttp.WithTracerProvider(t), otelhttp.WithMeterProvider(nometric.NewMeterProvider())}
		if m {
			o[1] = otelhttp.WithMeterProvider(meters)
		}
		return otelhttp.NewHandler(h, "GET /cart/{id}", o...)
	}
	handlers := map[string]http.Handler{
		"off":        plain,
		"histograms": watched(plain, notrace.NewTracerProvider(), true),
		"tenth":      watched(cart(tenth), tenth, false),
		"spans":      watched(cart(all), all, false),
		"both":       watched(cart(all), all, true),
	}
	var now atomic.Pointer[http.Handler]
	now.Store(&plain)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /cart/{id}", func(w http.ResponseWriter, r *http.Request) { (*now.Load()).ServeHTTP(w, r) })
	mux.HandleFunc("POST /telemetry", func(w http.ResponseWriter, r *http.Request) {
		mode := r.FormValue("mode")
		if !slices.Contains(modes, mode) {
			http.Error(w, "no such mode", http.StatusBadRequest)
			return
		}
		h := handlers[mode]
		now.Store(&h)
		w.WriteHeader(http.StatusNoContent)
	})
	server := &http.Server{Addr: listen, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return server.Shutdown(end)
}

type line struct {
	Article string  `json:"article"`
	Count   int     `json:"count"`
	Price   float64 `json:"price"`
}

// cart answers with a cart that depends on its number alone.
func cart(t trace.TracerProvider) http.Handler {
	tracer := t.Tracer("shop")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.PathValue("id"))
		if err != nil {
			http.Error(w, "no such cart", http.StatusNotFound)
			return
		}
		ctx := r.Context()
		var lines []line
		step(ctx, tracer, "SELECT cart_lines", func() {
			for i := range 1 + id%20 {
				name := sha256.Sum256([]byte{byte(id), byte(id >> 8), byte(i)})
				lines = append(lines, line{hex.EncodeToString(name[:8]), 1 + i%3, float64(name[0]) / 4})
			}
		})
		total := 0.0
		step(ctx, tracer, "add up", func() {
			for _, l := range lines {
				total += float64(l.Count) * l.Price
			}
		})
		step(ctx, tracer, "write", func() {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"id": id, "lines": lines, "total": total}) // the client may be gone
		})
	})
}

func step(ctx context.Context, t trace.Tracer, name string, do func()) {
	_, span := t.Start(ctx, name)
	defer span.End()
	do()
}
