package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/query/querytest"
	"tailscope/internal/store/storetest"
)

var now = time.Unix(querytest.Epoch+3600, 0).UTC()

// shop serves the API over an hour of the shop's data.
func shop(t *testing.T, o Options) (*httptest.Server, *storetest.Twin) {
	t.Helper()
	st := storetest.NewTwin()
	w := querytest.NewWriter()
	querytest.Shop(w)
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	if o.Store == nil {
		o.Store = st
	}
	o.Now = func() time.Time { return now }
	srv := httptest.NewServer(New(o))
	t.Cleanup(srv.Close)
	return srv, st
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

// TestGolden compares whole answers with testdata; UPDATE=1 rewrites them.
func TestGolden(t *testing.T) {
	srv, _ := shop(t, Options{Status: api.StatusResponse{Version: "1.2.3", OTLPGRPC: "127.0.0.1:4317", FlushSeconds: 11}})
	for _, c := range []struct {
		name, path string
		params     []string
	}{
		{"status", "/api/v1/status", nil},
		{"families", "/api/v1/families", nil},
		{"services", "/api/v1/services", []string{"start", "now-1h", "step", "20m"}},
		{"distribution", "/api/v1/distribution", []string{"start", "now-1h", "match", `{service="checkout",kind="server"}`, "by", "operation,status", "q", "0.5,0.999", "at", "0.04,0.2"}},
		{"distribution-buckets", "/api/v1/distribution", []string{"start", "now-60s", "match", `{tenant="umbrella"}`, "buckets", "true"}},
		{"heatmap", "/api/v1/heatmap", []string{"start", "now-5m", "match", `{service="checkout"}`, "step", "60s", "rows", "16"}},
		{"timeline", "/api/v1/timeline", []string{"start", "now-30m", "by", "service", "width", "4", "q", "0.99"}},
		{"timeline-offset", "/api/v1/timeline", []string{"start", "now", "end", "now+30m", "offset", "30m", "step", "10m", "q", "0.5"}},
		{"labels", "/api/v1/labels", []string{"start", "now-1h", "match", `{service="checkout"}`}},
		{"tenants", "/api/v1/tenants", []string{"start", "now-1h", "sort", "0.99", "limit", "2"}},
		{"nearest", "/api/v1/nearest", []string{"time", "now", "match", `{service="batch"}`}},
		{"marks", "/api/v1/marks", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, got := fetch(t, srv, c.path, c.params...)
			if status != http.StatusOK {
				t.Fatalf("status %d: %s", status, got)
			}
			golden(t, c.name+".json", indent(t, got))
		})
	}
}

func indent(t *testing.T, s string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v in %s", err, s)
	}
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; UPDATE=1 go test rewrites it\ngot:\n%s", path, firstDifference(got, string(want)))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "line " + g[i] + "\nwant " + w[i]
		}
	}
	return "one is longer"
}
