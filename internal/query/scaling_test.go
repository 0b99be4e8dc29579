package query

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/query/querytest"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// scaledStore is a store with a service that obeys the law: in the i-th minute it does
// rate(i) requests a second, each as long as concurrency over throughput.
func scaledStore(t *testing.T, minutes int, rate func(minute int) float64) store.Store {
	t.Helper()
	st, w := storetest.NewTwin(), querytest.NewWriter()
	l := labels.FromStrings("service", "shop", "operation", "GET /", "kind", "server", "status", "ok")
	for i := range minutes {
		count := int(rate(i) * 60)
		if count == 0 {
			continue
		}
		n := concurrencyAt(float64(count) / 60)
		for j := range count {
			w.Span(querytest.Epoch+int64(i)*60+int64(j*60/count), l, n*60/float64(count))
		}
	}
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	return st
}

const testLambda, testSigma, testKappa = 2.0, 0.05, 0.004

// concurrencyAt inverts the law: κN² + (σ − κ − λ/X)N + 1 − σ = 0, the root before
// the peak.
func concurrencyAt(x float64) float64 {
	b, c := testSigma-testKappa-testLambda/x, 1-testSigma
	return (-b - math.Sqrt(b*b-4*testKappa*c)) / (2 * testKappa)
}

func ofShop(minutes int) ScalingRequest {
	return ScalingRequest{Selection: Selection{
		Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "service", "shop")},
		Start:    time.Unix(querytest.Epoch, 0), End: time.Unix(querytest.Epoch+int64(minutes)*60, 0),
	}, Grid: Grid{Step: 60}}
}

func TestScalingFindsTheLaw(t *testing.T) {
	const minutes = 90
	peak := (math.Sqrt((1 - testSigma) / testKappa))
	most := testLambda * peak / (1 + (peak-1)*(testSigma+testKappa*peak))
	st := scaledStore(t, minutes, func(i int) float64 { return most * (0.1 + 0.89*math.Abs(math.Sin(float64(i)/9))) })
	out, err := Scaling(t.Context(), st, ofShop(minutes))
	if err != nil {
		t.Fatal(err)
	}
	if out.Law == nil {
		t.Fatalf("no law: %+v", out.Warnings)
	}
	for _, c := range []struct {
		what string
		got  api.ScalingValue
		want float64
	}{
		{"λ", out.Law.Lambda, testLambda}, {"σ", out.Law.Sigma, testSigma}, {"κ", out.Law.Kappa, testKappa},
		{"peak", out.Law.PeakN, peak}, {"peak's rate", out.Law.PeakRate, most},
	} {
		if math.Abs(float64(c.got.Value)-c.want) > 0.02*c.want {
			t.Errorf("%s is %v, want %v within 2 %%", c.what, c.got.Value, c.want)
		}
		if !(c.got.Low <= c.got.Value && c.got.Value <= c.got.High) {
			t.Errorf("%s: %v is not within %v to %v", c.what, c.got.Value, c.got.Low, c.got.High)
		}
	}
	if out.Law.Source != "stored" || len(out.Points) < 60 || len(out.Points) != len(out.Law.Points) {
		t.Errorf("source %q, %d points, of the law %d", out.Law.Source, len(out.Points), len(out.Law.Points))
	}
	for _, p := range out.Points {
		near(t, "concurrency", p.N, float64(p.Rate*p.Mean))
	}
}

func TestScalingSaysWhatIsMissing(t *testing.T) {
	for _, tc := range []struct {
		name    string
		minutes int
		rate    float64
		asked   int
		want    string
		points  int
		mark    int64 // seconds
	}{
		{"nothing", 10, 0, 10, "no request was seen in this range: ask for a longer one", 0, 0},
		{"few requests", 10, 0.1, 10, "10 of 10 steps of 60s have fewer than 20 requests", 10, 0},
		{"few steps", 3, 4, 3, "3 points", 3, 0},
		{"a mark in the last step", 10, 4, 10, "canary has no whole step of 60s with requests: ask again later, or for shorter steps", 10, 570},
		// The fourth minute has not ended where the range ends.
		{"a step that has not ended", 4, 4, 4, "3 points", 3, 0},
	} {
		r := ofShop(tc.asked)
		if strings.Contains(tc.name, "not ended") {
			r.End = r.End.Add(-20 * time.Second)
		}
		st := scaledStore(t, tc.minutes, func(int) float64 { return tc.rate })
		if tc.mark > 0 {
			if err := store.PutMark(t.Context(), st, store.Mark{ID: "a", Name: "canary", Time: time.Unix(querytest.Epoch+tc.mark, 0)}); err != nil {
				t.Fatal(err)
			}
		}
		out, err := Scaling(t.Context(), st, r)
		if err != nil {
			t.Fatal(err)
		}
		all := ""
		for _, w := range out.Warnings {
			all += w.Text + "\n"
		}
		if out.Law != nil || !strings.Contains(all, tc.want) || len(out.Points) != tc.points {
			t.Errorf("%s: law %v, %d points, warnings %q, want %q and %d points", tc.name, out.Law, len(out.Points), all, tc.want, tc.points)
		}
	}
}

// A load that hardly changes has no law, and it is said what has.
func TestScalingOfAConstantLoad(t *testing.T) {
	out, err := Scaling(t.Context(), scaledStore(t, 30, func(i int) float64 { return 4 + 0.1*float64(i%4) }), ofShop(30))
	if err != nil {
		t.Fatal(err)
	}
	if out.Law != nil || len(out.Points) != 30 || len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0].Text, "scaling is not fitted: nearly always") ||
		!strings.Contains(out.Warnings[0].Text, "ask for a range in which load went up and down") {
		t.Errorf("law %v, %d points, warnings %v", out.Law, len(out.Points), out.Warnings)
	}
}

func TestScalingRefuses(t *testing.T) {
	st := scaledStore(t, 1, func(int) float64 { return 1 })
	nobody, level := ofShop(1), ofShop(1)
	nobody.Matchers, level.Level = nil, 95
	for field, r := range map[string]ScalingRequest{"match": nobody, "level": level} {
		_, err := Scaling(t.Context(), st, r)
		var invalid *Error
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// A minute of which only a part was measured is not fitted.
func TestScalingLeavesPartialMinutes(t *testing.T) {
	rate := func(i int) float64 {
		switch {
		case i < 5 || i > 20 && i < 24:
			return 0
		case i == 5 || i == 24:
			return 1 // of 4, for a quarter of the minute
		}
		return 4
	}
	out, err := Scaling(t.Context(), scaledStore(t, 40, rate), ofShop(40))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range out.Points {
		minute := int(int64(p.Time)-querytest.Epoch) / 60
		if want := minute == 5 || minute == 20 || minute == 24; p.Left != want {
			t.Errorf("minute %d is left out: %v", minute, p.Left)
		}
	}
	if out.Law != nil || len(out.Warnings) == 0 || !strings.Contains(out.Warnings[0].Text, "3 of 32 steps of 60s") {
		t.Errorf("law %v, warnings %v", out.Law, out.Warnings)
	}
}
