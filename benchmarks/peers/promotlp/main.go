// Command promotlp is Prometheus reduced to what Tailscope is measured beside:
// its time series database behind its own OTLP write handler, with the options
// that the Prometheus server sets. Rules, scraping and queries are left out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/compression"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9090", "address of the OTLP write endpoint, /api/v1/otlp/v1/metrics")
	data := flag.String("data", "", "directory of the database")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *data); err != nil {
		fmt.Fprintln(os.Stderr, "promotlp:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen, data string) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	reg := prometheus.NewRegistry()
	opts := tsdb.DefaultOptions()
	opts.WALCompression = compression.Snappy
	db, err := tsdb.Open(data, log, reg, opts, nil)
	if err != nil {
		return err
	}
	cfg := config.DefaultConfig
	mux := http.NewServeMux()
	mux.HandleFunc("/-/ready", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("/api/v1/otlp/v1/metrics", remote.NewOTLPWriteHandler(log, reg, db,
		func() config.Config { return cfg },
		remote.OTLPOptions{NativeDelta: true, LookbackDelta: 5 * time.Minute}))
	mux.HandleFunc("/head", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%d\n", db.Head().NumSeries())
	})
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	srv := &http.Server{Handler: mux}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case <-ctx.Done():
		err = srv.Shutdown(context.Background())
	case err = <-served:
	}
	return errors.Join(err, db.Close())
}
