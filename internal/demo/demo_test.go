package demo

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/config"
	"tailscope/internal/server"
)

func TestMain(m *testing.M) {
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// watched is an output that calls a function once a text has been written.
type watched struct {
	bytes.Buffer
	text string
	then func()
}

func (w *watched) Write(b []byte) (int, error) {
	n, err := w.Buffer.Write(b)
	if strings.Contains(w.Buffer.String(), w.text) {
		w.then()
	}
	return n, err
}

// The whole demo in a few seconds: shop, load, change, backup and marks, on
// free ports although the configured ones are taken, and all of it is found in
// the data directory afterwards.
func TestDemo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cfg := config.Default()
	cfg.Data = t.TempDir()
	cfg.Listen, cfg.OTLPGRPC, cfg.OTLPHTTP = taken.Addr().String(), "127.0.0.1:0", "127.0.0.1:0"
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	out := &watched{text: "backed up every tenant", then: stop}
	ready, acts := false, ""
	begun := time.Now()
	err = Run(ctx, Options{
		Server: cfg, Out: out, Log: slog.New(slog.DiscardHandler),
		Rate: 150, Orders: 2000, ChangeAfter: 300 * time.Millisecond, BackupEvery: 300 * time.Millisecond,
		Ready: func(s *server.Server) {
			ready = true
			status, err := (&client.Client{Address: s.Addr()}).Status(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			for _, a := range status.Acts {
				acts += a.Name + ", "
			}
		},
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if want := "index, backup, bulk import, backup, bulk import, "; acts != want {
		t.Errorf("the page is told of %s want %s", acts, want)
	}
	checked := 1 + uint64(time.Since(begun)/(5*time.Second)) // its interval in checks.yaml
	for _, want := range []string{
		taken.Addr().String() + " is taken: the page gets a free port", "what comes: ", "made the index", "backed up every tenant", "0 of them failed; 0 dropped, ",
	} {
		if !ready || !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.String())
		}
	}

	cfg.Listen = "127.0.0.1:0"
	c := reopen(t, cfg)
	said := regexp.MustCompile(`(\d+) requests were due: (\d+) answered.* dropped, (\d+) cut off`).FindStringSubmatch(out.String())
	if said == nil {
		t.Fatalf("no account at the end:\n%s", out.String())
	}
	due, _ := strconv.Atoi(said[1])
	answered, _ := strconv.Atoi(said[2])
	cut, _ := strconv.Atoi(said[3])
	s, err := c.Services(t.Context(), api.ServicesRequest{Selection: api.Selection{Start: "now-1h", End: "now+1m"}})
	if err != nil {
		t.Fatal(err)
	}
	requests := map[string]uint64{}
	for _, x := range s.Services {
		requests[x.Name] = x.Requests
	}
	// Every answered request is in the spans of its shopper and in the shop's
	// own, which may have answered some that were cut off, too, and those of the
	// check of its front page.
	if answered == 0 || due != answered+cut || requests["shoppers"] != uint64(answered) ||
		requests["shop"] < uint64(answered) || requests["shop"] > uint64(due)+checked {
		t.Errorf("%d due, %d answered, %d cut off, %d by the check at most; the services say %v", due, answered, cut, checked, requests)
	}
	marks, err := c.Marks(t.Context(), api.MarksRequest{Start: "now-1h", End: "now+1m", Service: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for _, m := range marks.Marks {
		names[m.Name]++
	}
	if names["index added"] != 1 || names["backup started"] < 1 {
		t.Errorf("marks: %v", names)
	}
	labels, err := c.Labels(t.Context(), api.LabelsRequest{
		Selection: api.Selection{Match: `{service="shop",component="db"}`, Start: "now-1h", End: "now+1m"}, Names: []string{"operation"}, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var operations []string
	for _, l := range labels.Labels {
		for _, v := range l.Values {
			operations = append(operations, v.Value)
		}
	}
	if !strings.Contains(strings.Join(operations, ","), "SELECT orders") {
		t.Errorf("the database's operations are %q, want SELECT orders among them", operations)
	}
	families, err := c.Families(t.Context(), api.FamiliesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, f := range families.Families {
		kinds = append(kinds, f.Name+" "+f.Kind)
	}
	for _, want := range []string{"span_duration_seconds distribution", "http_server_request_duration_seconds distribution", "go_goroutine_count gauge",
		"process_cpu_time_seconds_total counter", "go_gc_pause_seconds distribution"} {
		if !strings.Contains(strings.Join(kinds, ","), want) {
			t.Errorf("families are %q, want %q among them", kinds, want)
		}
	}
}

// reopen serves what a demo has left.
func reopen(t *testing.T, cfg config.Config) *client.Client {
	t.Helper()
	srv, err := server.Start(t.Context(), server.Settings{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &client.Client{Address: srv.Addr()}
}
