package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"tailscope/api"
)

// answer serves one canned answer and remembers the request.
func answer(t *testing.T, status int, body string) (*Client, *http.Request) {
	t.Helper()
	got := new(http.Request)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*got = *r.Clone(context.Background())
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got.Header.Set("X-Body", string(b))
		if status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "2")
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	return &Client{Address: srv.URL + "/"}, got
}

func TestRequests(t *testing.T) {
	ctx := context.Background()
	sel := api.Selection{Family: "f", Match: `{a="b"}`, Start: "now-1h", End: "now"}
	span := api.Requests{Match: sel.Match, Start: sel.Start, End: sel.End}
	const selected = "end=now&family=f&match=%7Ba%3D%22b%22%7D"
	for _, c := range []struct {
		want string
		do   func(c *Client) error
	}{
		{"/api/v1/services?apdex_t=0.25&" + selected + "&q=0.5&start=now-1h&step=1m", func(c *Client) error {
			_, err := c.Services(ctx, api.ServicesRequest{Selection: sel, Grid: api.Grid{Step: time.Minute}, Quantiles: []string{"0.5"}, ApdexT: 0.25})
			return err
		}},
		{"/api/v1/distribution?at=0.2%2C1&buckets=true&by=a%2Cb&end=now&family=f&limit=3&match=%7Ba%3D%22b%22%7D&q=0.5%2C0.9&start=now-1h", func(c *Client) error {
			_, err := c.Distribution(ctx, api.DistributionRequest{Selection: sel, By: []string{"a", "b"}, Quantiles: []string{"0.5", "0.9"}, At: []float64{0.2, 1}, Buckets: true, Limit: 3})
			return err
		}},
		{"/api/v1/heatmap?" + selected + "&rows=40&start=now-1h&width=80", func(c *Client) error {
			_, err := c.Heatmap(ctx, api.HeatmapRequest{Selection: sel, Grid: api.Grid{Width: 80}, Rows: 40})
			return err
		}},
		{"/api/v1/compare?b=1%2F2&days=3&end=now&family=f&include=curve%2Cheat&like=workday&limit=2&live=true&match=%7Ba%3D%22b%22%7D&measures=p50&per=request&rows=40&start=now-1h&tz=Europe%2FBerlin&width=80", func(c *Client) error {
			_, err := c.Compare(ctx, api.CompareRequest{Selection: sel, B: "1/2", Days: 3, Like: "workday", Zone: "Europe/Berlin", Per: "request", Live: true,
				Include: []string{"curve", "heat"}, Width: 80, Rows: 40, Measures: []string{"p50"}, Limit: 2})
			return err
		}},
		{"/api/v1/timeline?by=a&" + selected + "&offset=24h&start=now-1h", func(c *Client) error {
			_, err := c.Timeline(ctx, api.TimelineRequest{Selection: sel, By: []string{"a"}, Offset: 24 * time.Hour})
			return err
		}},
		{"/api/v1/labels?" + selected + "&names=a&start=now-1h", func(c *Client) error {
			_, err := c.Labels(ctx, api.LabelsRequest{Selection: sel, Names: []string{"a"}})
			return err
		}},
		{"/api/v1/tenants?end=now&family=f&limit=5&match=%7Ba%3D%22b%22%7D&offset=10&search=x&sort=-name&start=now-1h", func(c *Client) error {
			_, err := c.Tenants(ctx, api.TenantsRequest{Selection: sel, Sort: "-name", Search: "x", Offset: 10, Limit: 5})
			return err
		}},
		{"/api/v1/nearest?by=a&time=now-5m", func(c *Client) error {
			_, err := c.Nearest(ctx, api.NearestRequest{Time: "now-5m", By: []string{"a"}})
			return err
		}},
		{"/api/v1/apdex?by=operation&end=now&match=%7Ba%3D%22b%22%7D&overlay=like&start=now-1h&t=0.3&tz=Europe%2FBerlin&width=80", func(c *Client) error {
			_, err := c.Apdex(ctx, api.ApdexRequest{Requests: span, Grid: api.Grid{Width: 80}, T: 0.3, By: "operation",
				EarlierDay: api.EarlierDay{Overlay: "like", Zone: "Europe/Berlin"}})
			return err
		}},
		{"/api/v1/breakdown?above=0.99&end=now&high=2s&limit=3&low=500ms&match=%7Ba%3D%22b%22%7D&overlay=week&q=0.5&start=now-1h&tz=Asia%2FKolkata&width=80", func(c *Client) error {
			_, err := c.Breakdown(ctx, api.BreakdownRequest{Requests: span, Grid: api.Grid{Width: 80}, Quantiles: []string{"0.5"}, Above: 0.99,
				Low: 500 * time.Millisecond, High: 2 * time.Second, Limit: 3, EarlierDay: api.EarlierDay{Overlay: "week", Zone: "Asia/Kolkata"}})
			return err
		}},
		{"/api/v1/operations?component=db%2Ccache&end=now&kind=client&limit=5&match=%7Ba%3D%22b%22%7D&offset=10&overlay=day&q=0.99&search=x&sort=p99&start=now-1h&step=1m&tz=UTC", func(c *Client) error {
			_, err := c.Operations(ctx, api.OperationsRequest{Requests: span, Grid: api.Grid{Step: time.Minute}, Quantiles: []string{"0.99"}, Sort: "p99", Search: "x",
				Components: []string{"db", "cache"}, Kinds: []string{"client"}, Offset: 10, Limit: 5, EarlierDay: api.EarlierDay{Overlay: "day", Zone: "UTC"}})
			return err
		}},
		{"/api/v1/callers?component=db&end=now&operation=SELECT+orders&service=s&start=now-1h", func(c *Client) error {
			_, err := c.Callers(ctx, api.CallersRequest{Service: "s", Component: "db", Operation: "SELECT orders", Start: "now-1h", End: "now"})
			return err
		}},
		{"/api/v1/traces?at=250ms&end=now&limit=5&match=%7Ba%3D%22b%22%7D&max=1s&min=100ms&sort=nearest&start=now-1h&step=1m&time=now-5m&why=slow%2Cfailed", func(c *Client) error {
			_, err := c.Traces(ctx, api.TracesRequest{Requests: span, Min: 100 * time.Millisecond, Max: time.Second, Why: []string{"slow", "failed"}, Sort: "nearest",
				At: 250 * time.Millisecond, Time: "now-5m", Step: time.Minute, Limit: 5})
			return err
		}},
		{"/api/v1/traces/0af7651916cd43dd8448eb211c80319c", func(c *Client) error {
			_, err := c.Trace(ctx, "0af7651916cd43dd8448eb211c80319c")
			return err
		}},
		{"/api/v1/cluster", func(c *Client) error { _, err := c.Cluster(ctx); return err }},
		{"/api/v1/families", func(c *Client) error { _, err := c.Families(ctx, api.FamiliesRequest{}); return err }},
		{"/api/v1/families?service=s&start=now-1h", func(c *Client) error {
			_, err := c.Families(ctx, api.FamiliesRequest{Service: "s", Start: "now-1h"})
			return err
		}},
		{"/api/v1/status", func(c *Client) error { _, err := c.Status(ctx); return err }},
		{"/api/v1/marks?service=s", func(c *Client) error { _, err := c.Marks(ctx, api.MarksRequest{Service: "s"}); return err }},
		{"/api/v1/marks/a%2Fb", func(c *Client) error { _, err := c.Mark(ctx, "a/b"); return err }},
		{"/api/v1/marks/a%2Fb", func(c *Client) error { return c.DeleteMark(ctx, "a/b") }},
		{"/api/v1/sessions?end=now&kind=mirror&limit=5&q=cache&start=now-1h&state=lost", func(c *Client) error {
			_, err := c.Sessions(ctx, api.SessionsRequest{Kind: "mirror", State: "lost", Search: "cache", Start: "now-1h", End: "now", Limit: 5})
			return err
		}},
		{"/api/v1/sessions/x", func(c *Client) error { _, err := c.Session(ctx, "x"); return err }},
		{"/api/v1/sessions/x", func(c *Client) error {
			_, err := c.ReportSession(ctx, "x", api.SessionReport{})
			return err
		}},
		{"/api/v1/sessions/x", func(c *Client) error {
			_, err := c.ChangeSession(ctx, "x", api.MirrorChange{Stop: true})
			return err
		}},
		{"/api/v1/sessions/x", func(c *Client) error { return c.StopSession(ctx, "x") }},
		{"/api/v1/sessions/x", func(c *Client) error { return c.ForgetSession(ctx, "x") }},
		{"/api/v1/sessions/x/verdict?end=now&limit=3&measures=ratio%2Cp99&start=now-1h", func(c *Client) error {
			_, err := c.SessionVerdict(ctx, api.SessionVerdictRequest{ID: "x", Start: "now-1h", End: "now", Measures: []string{"ratio", "p99"}, Limit: 3})
			return err
		}},
	} {
		cl, got := answer(t, 200, "{}")
		if err := c.do(cl); err != nil {
			t.Errorf("%s: %v", c.want, err)
		}
		if got.URL.RequestURI() != c.want {
			t.Errorf("asked %s, want %s", got.URL.RequestURI(), c.want)
		}
	}
}

func TestPutMark(t *testing.T) {
	cl, got := answer(t, 201, `{"id":"7","name":"deploy","time":12}`)
	m, err := cl.PutMark(context.Background(), api.Mark{Name: "deploy"})
	if err != nil || m.ID != "7" || m.Time != 12 {
		t.Fatalf("got %+v, %v", m, err)
	}
	var sent map[string]any
	if err := json.Unmarshal([]byte(got.Header.Get("X-Body")), &sent); err != nil || len(sent) != 1 || sent["name"] != "deploy" {
		t.Errorf("sent %v, %v; want the name only", sent, err)
	}
	if got.Method != http.MethodPost || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("sent %s %s", got.Method, got.Header.Get("Content-Type"))
	}
}

func TestErrors(t *testing.T) {
	ctx := context.Background()
	cl, _ := answer(t, 400, `{"error":{"code":"invalid","message":"quantile 99 is not between 0 and 1; write 0.99","field":"q"}}`)
	_, err := cl.Status(ctx)
	var e *Error
	if !errors.As(err, &e) || e.Status != 400 || e.Code != "invalid" || e.Field != "q" || err.Error() != "q: quantile 99 is not between 0 and 1; write 0.99" {
		t.Errorf("got %#v", err)
	}
	cl, _ = answer(t, 503, `{"error":{"code":"unavailable","message":"busy"}}`)
	if _, err = cl.Status(ctx); !errors.As(err, &e) || e.RetryAfter != 2*time.Second {
		t.Errorf("got %#v", err)
	}
	cl, _ = answer(t, 502, "<html>bad gateway")
	if _, err = cl.Status(ctx); !errors.As(err, &e) || e.Message != "the server answered 502 Bad Gateway <html>bad gateway" {
		t.Errorf("got %v", err)
	}
	cl, _ = answer(t, 200, "hello")
	if _, err = cl.Status(ctx); err == nil {
		t.Error("an answer that is not JSON was taken")
	}
	if _, err = (&Client{Address: "127.0.0.1:1"}).Status(ctx); !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v, want ErrUnreachable", err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err = (&Client{Address: "127.0.0.1:1"}).Status(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestNullIsNaN(t *testing.T) {
	cl, _ := answer(t, 200, `{"groups":[{"mean":null,"quantiles":{"0.5":null}}]}`)
	r, err := cl.Distribution(context.Background(), api.DistributionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if g := r.Groups[0]; !math.IsNaN(float64(g.Mean)) || !math.IsNaN(float64(g.Quantiles["0.5"])) {
		t.Errorf("got %+v", g)
	}
}
