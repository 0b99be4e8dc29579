package server

import (
	"context"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/client"
	"tailscope/hist"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/otlpsink"
	"tailscope/internal/series"
)

// mirrored are points as a book gives them, of three slots that end a minute
// before now.
func mirrored(now time.Time) []pair.Point {
	rng := rand.New(rand.NewPCG(5, 5))
	first := now.Unix()/10*10 - 90
	var out []pair.Point
	for slot := range int64(3) {
		at := (first + slot*10) * 1e9
		for _, variant := range []string{"primary", "control", "candidate"} {
			for _, tenant := range []string{"", "ümlaut", "a;b,c"} {
				l := labels.FromMap(map[string]string{"service": "shop", "experiment": "20260101-a", "operation": "GET /cart/{id}", "status": "ok", "variant": variant, "tenant": tenant})
				if tenant == "" {
					l = labels.NewBuilder(l).Del("tenant").Labels()
				}
				distribution := func(family string, l labels.Labels, scale float64) {
					h := hist.New(hist.DefaultSchema)
					for range 1 + rng.IntN(300) {
						_ = h.Record(scale * rng.ExpFloat64())
					}
					_ = h.Record(0)
					out = append(out, pair.Point{Family: family, Labels: l, Kind: series.Distribution, TimeNanos: at, Hist: h})
				}
				distribution(pair.FamilyDuration, l, 0.02)
				distribution(pair.FamilyFirstByte, l, 0.01)
				distribution(pair.FamilyBytes, l, 4000)
				if variant != "primary" {
					distribution(pair.FamilyRatio, labels.NewBuilder(l).Set(pair.LabelAgainst, "primary").Labels(), 1)
				}
			}
			out = append(out, pair.Point{
				Family: pair.FamilyCopies, Kind: series.Counter, TimeNanos: at, Value: float64(1 + rng.IntN(50)),
				Labels: labels.FromStrings("service", "shop", "experiment", "20260101-a", "variant", variant, pair.LabelOutcome, "answered"),
			})
		}
		out = append(out, pair.Point{
			Family: pair.FamilyRequests, Kind: series.Counter, TimeNanos: at, Value: 17,
			Labels: labels.FromStrings("service", "shop", "experiment", "20260101-a", pair.LabelOutcome, "mirrored"),
		})
	}
	return out
}

// What is measured is the same in the store whichever way it came: in the
// process, or by OTLP to another.
func TestMirrorSinksAgree(t *testing.T) {
	now := time.Now()
	points := mirrored(now)
	near, far := start(t, testConfig(t.TempDir())), start(t, testConfig(t.TempDir()))
	local := newMirrorSink(near.agg, near.log)
	remote := otlpsink.New(otlpsink.Options{Address: func(context.Context) (string, error) { return "http://" + far.OTLPHTTP(), nil }})
	for _, sink := range []pair.Sink{local, remote} {
		half := len(points) / 2
		for _, some := range [][]pair.Point{points[:half], points[half:]} {
			if err := sink.Put(t.Context(), some); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := remote.Stats(); got != (otlpsink.Stats{Points: uint64(len(points))}) {
		t.Errorf("sent: %+v, want %d points and nothing else", got, len(points))
	}
	for _, s := range []*Server{near, far} {
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, family := range []string{pair.FamilyDuration, pair.FamilyFirstByte, pair.FamilyBytes, pair.FamilyRatio} {
		by := []string{"experiment", "operation", "tenant", "status", "variant"}
		if family == pair.FamilyRatio {
			by = append(by, pair.LabelAgainst)
		}
		var got [2]*api.DistributionResponse
		for i, s := range []*Server{near, far} {
			r, err := (&client.Client{Address: s.Addr()}).Distribution(t.Context(), api.DistributionRequest{
				Selection: api.Selection{Family: family, Match: `{service="shop"}`, Start: "now-10m", End: "now"},
				By:        by, Quantiles: []string{"0", "0.5", "0.99", "1"}, Buckets: true,
			})
			if err != nil {
				t.Fatalf("%s: %v", family, err)
			}
			r.Start, r.End = 0, 0
			got[i] = r
		}
		if len(got[0].Groups) < 6 || !reflect.DeepEqual(got[0], got[1]) {
			t.Errorf("%s: in the process\n%+v\nby OTLP\n%+v", family, got[0], got[1])
		}
	}
	for i, s := range []*Server{near, far} {
		r, err := (&client.Client{Address: s.Addr()}).Families(t.Context(), api.FamiliesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range r.Families {
			if strings.HasPrefix(f.Name, "mirror_") {
				names = append(names, f.Name+" "+f.Kind)
			}
			if f.Interval > 10 {
				t.Errorf("%s has an interval of %d s", f.Name, f.Interval)
			}
		}
		want := []string{"mirror_answer_bytes distribution", "mirror_copies_total counter", "mirror_duration_seconds distribution",
			"mirror_first_byte_seconds distribution", "mirror_ratio distribution", "mirror_requests_total counter"}
		if !reflect.DeepEqual(names, want) {
			t.Errorf("server %d: families %q, want %q", i, names, want)
		}
	}
}
