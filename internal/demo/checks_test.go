package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/config"
	"tailscope/internal/server"
)

// alarms returns when each check would have opened incidents, by its own rules, and how many
// that are. The front page is measured from outside, so that its past is not known.
func alarms(t *testing.T, c *client.Client, from, to time.Time) (opened map[string][]time.Time, n int) {
	t.Helper()
	var ids []string
	for range 100 { // checks of operations are there once these are found
		list, err := c.Checks(t.Context(), api.ChecksRequest{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		ids = nil
		found := false
		for _, x := range list.Checks {
			found = found || strings.HasPrefix(x.ID, "errors")
			if x.ID != "front page" {
				ids = append(ids, x.ID)
			}
		}
		if found {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	opened = map[string][]time.Time{}
	for _, id := range ids {
		r, err := c.BacktestCheck(t.Context(), api.CheckBacktest{Check: id, Start: api.UnixTime(from), End: api.UnixTime(to)})
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		if r.Truncated {
			t.Errorf("%s: the backtest did not come to its end", id)
		}
		for _, a := range r.Alarms {
			opened[id] = append(opened[id], a.Start.Time())
			t.Logf("%s: %s from %s to %s, %v", id, a.Worst, a.Start.Time().Format(time.TimeOnly), a.End.Time().Format(time.TimeOnly), a.Value)
		}
		n += len(r.Alarms)
		t.Logf("%s: %d runs, %d without a value, %d alarms", id, r.Runs, r.Nulls, len(r.Alarms))
	}
	return opened, n
}

// served is a request of the shop that took so long, ready to be copied.
func served(t *testing.T, operation string, took time.Duration) *request {
	t.Helper()
	method, route, _ := strings.Cut(operation, " ")
	q := request{operation: operation, spans: []requestSpan{{service: "shop", parent: -1, end: took, same: &tracepb.Span{
		Name: operation, Kind: tracepb.Span_SPAN_KIND_SERVER, Attributes: words("http.request.method", method, "http.route", route, "tenant.id", "globex")}}}}
	q, err := q.of("globex")
	if err != nil {
		t.Fatal(err)
	}
	return &q
}

// The index that is lost, a backup and an import each raise one alarm, of the check that is
// there for it, and nothing else does in nearly two hours.
func TestFaultsRaiseOneAlarmEach(t *testing.T) {
	cfg := config.Default()
	cfg.Data = t.TempDir()
	cfg.Listen, cfg.OTLPGRPC, cfg.OTLPHTTP = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	srv, err := server.Start(t.Context(), server.Settings{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	export := otlptracegrpc.NewClient(otlptracegrpc.WithEndpoint(srv.OTLPGRPC()), otlptracegrpc.WithInsecure())
	if err := export.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	const ms = time.Millisecond
	fast, lost := served(t, "GET /orders", 3*ms), served(t, "GET /orders", 60*ms)
	order, bank := served(t, "POST /orders", 30*ms), served(t, "POST /orders", 200*ms)
	var waits []*request
	for i := range 10 {
		waits = append(waits, served(t, "POST /orders", time.Duration(i+1)*150*ms))
	}
	now := time.Now().Add(-time.Minute)
	begin, watched := now.Add(-4*time.Hour), now.Add(-110*time.Minute)
	faults := []struct {
		name, check string
		at          time.Time
		lasts       time.Duration
	}{
		{"the index is lost", "looking at orders", now.Add(-90 * time.Minute), 6 * time.Minute},
		{"a backup", "placing an order", now.Add(-60 * time.Minute), 10 * time.Second},
		{"an import", "placing an order", now.Add(-30 * time.Minute), time.Minute},
	}
	during := func(i int, at time.Time) bool {
		return !at.Before(faults[i].at) && at.Before(faults[i].at.Add(faults[i].lasts))
	}
	rng := rand.New(rand.NewPCG(8, 1))
	c := &copier{client: export, rng: rng, about: map[string]*resourcepb.Resource{"shop": {Attributes: words("service.name", "shop", "service.version", "x")}}}
	if err := c.send(t.Context(), func(ctx context.Context) error {
		for at := begin; at.Before(now); at = at.Add(250 * ms) {
			look, place := fast, order
			if during(0, at) && rng.IntN(5) == 0 { // customers of large tenants
				look = lost
			}
			if rng.IntN(50) == 0 {
				place = bank
			}
			if (during(1, at) || during(2, at)) && rng.IntN(2) == 0 { // it rests as long as it works
				place = waits[rng.IntN(len(waits))]
			}
			c.copy(ctx, look, at, "x", 1)
			c.copy(ctx, place, at, "x", 1)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(export.Stop(t.Context()), srv.Close(t.Context())); err != nil { // all of it is stored
		t.Fatal(err)
	}
	file, err := writeChecks(t.TempDir(), "127.0.0.1:1", "globex")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Checks = []string{file}
	opened, n := alarms(t, reopen(t, cfg), watched, now)
	if n != len(faults) {
		t.Errorf("%d alarms, want one for each of %d faults", n, len(faults))
	}
	for _, f := range faults {
		found := ""
		for _, at := range opened[f.check] {
			if late := at.Sub(f.at); late >= 0 && late <= 3*time.Minute {
				found = fmt.Sprint(late)
			}
		}
		if found == "" {
			t.Errorf("%s at %s raises no alarm of %s: %v", f.name, f.at.Format(time.TimeOnly), f.check, opened[f.check])
		}
	}
}
