package httpapi

import (
	"context"
	"io"
	"math"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"go.uber.org/goleak"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
	"tailscope/internal/store/storetest"
)

var now = time.Unix(querytest.Epoch+3600, 0).UTC()

// lasting are goroutines that outlive the tests.
var lasting = []goleak.Option{goleak.IgnoreAnyFunction("github.com/cockroachdb/pebble/v2/vfs.(*diskHealthCheckingFS).startTickerLocked.func1")}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, lasting...)
}

// pebble opens a store in memory.
func pebble(t testing.TB) *pebblestore.Store {
	t.Helper()
	return openPebble(t, pebblestore.Options{Dir: "data", FS: vfs.NewMem(), MinFreeBytes: -1})
}

func openPebble(t testing.TB, o pebblestore.Options) *pebblestore.Store {
	t.Helper()
	st, err := pebblestore.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// serve answers the API at now.
func serve(t *testing.T, o Options) *httptest.Server {
	t.Helper()
	if o.Now == nil {
		o.Now = func() time.Time { return now }
	}
	srv := httptest.NewServer(New(o))
	t.Cleanup(srv.Close)
	return srv
}

// filled puts the shop's hour, and a gauge and a counter, into a store.
func filled(t testing.TB, st store.Store) store.Store {
	t.Helper()
	w := querytest.NewWriter()
	querytest.Shop(w)
	w.Family(store.FamilyInfo{Name: "heap_bytes", Kind: series.Gauge, IntervalSeconds: 30})
	w.Family(store.FamilyInfo{Name: "orders_total", Kind: series.Counter, IntervalSeconds: 30})
	for i := range int64(120) {
		at := (querytest.Epoch + i*30) * 1000
		for _, pod := range []string{"a", "b"} {
			l := labels.FromStrings("pod", pod)
			w.Number(at, series.Series{Family: "heap_bytes", Kind: series.Gauge, Labels: l}, float64(1000+i))
			// The counter of pod b begins again in the middle.
			total := float64(3 * i)
			if pod == "b" && i >= 60 {
				total = float64(3 * (i - 60))
			}
			w.Number(at, series.Series{Family: "orders_total", Kind: series.Counter, Labels: l}, total)
		}
	}
	for i, v := range []float64{0.1, 0.2, 0.3, 1} {
		h, err := hist.NewExplicit([]float64{0.1, 0.25, 0.5, 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.RecordN(v, uint64(i+1)); err != nil {
			t.Fatal(err)
		}
		if err := w.Merge(querytest.Epoch+int64(i)*60, series.Series{Family: "job_seconds", Labels: labels.FromStrings("job", "x")}, h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	return st
}

func shop(t *testing.T, o Options) *httptest.Server {
	t.Helper()
	o.Store = filled(t, storetest.NewTwin())
	return serve(t, o)
}

func fetch(t *testing.T, srv *httptest.Server, path string, params ...string) (int, string) {
	t.Helper()
	q := url.Values{}
	for i := 0; i+1 < len(params); i += 2 {
		q.Add(params[i], params[i+1])
	}
	target := srv.URL + path
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	res, err := srv.Client().Get(target)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// A range that is longer than its data has one rate, whichever answer it stands in.
func TestRateIsOfTheMeasuredTime(t *testing.T) {
	srv := shop(t, Options{})
	const match = `{service="checkout"}`
	body := func(path string, pairs ...string) string {
		code, body := fetch(t, srv, path, append([]string{"start", "now-6h"}, pairs...)...)
		if code != 200 {
			t.Fatal(path, body)
		}
		return body
	}
	list := decodeJSON[api.ServicesResponse](t, body("/api/v1/services", "match", match)).Services
	whole := decodeJSON[api.DistributionResponse](t, body("/api/v1/distribution", "match", `{service="checkout",kind="server"}`))
	scores := decodeJSON[api.ApdexResponse](t, body("/api/v1/apdex", "match", match)).Rows
	if len(list) != 1 || len(whole.Groups) != 1 || len(scores) != 1 {
		t.Fatalf("%d services, %d groups, %d scores", len(list), len(whole.Groups), len(scores))
	}
	if by := decodeJSON[api.DistributionResponse](t, body("/api/v1/distribution", "match", match, "by", "operation")); by.Measured != 0 {
		t.Errorf("groups are measured in %g", by.Measured)
	}
	if long := float64(whole.End - whole.Start); !(float64(whole.Measured) < long/2) {
		t.Fatalf("an hour of data in %g seconds was measured in %g", long, whole.Measured)
	}
	want := float64(whole.Groups[0].Count) / float64(whole.Measured)
	for name, got := range map[string]api.Float{"list": list[0].Rate, "Apdex": scores[0].Rate} {
		if math.Abs(float64(got)/want-1) > 0.001 {
			t.Errorf("%s: %g requests/s, the distribution's are %g", name, got, want)
		}
	}
}
