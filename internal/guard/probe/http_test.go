package probe

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tailscope/internal/guard/check/spec"
)

func site(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "7 items") })
	mux.HandleFunc("/down", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) })
	mux.HandleFunc("/json", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"data":{"items":[{"count":3},{"count":"1,204.5"}],"a.b":true,"none":null}}`)
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.Host, r.Header.Get("X-Key"), r.Header.Get("X-Plain"), b)
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/ok", http.StatusFound) })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
	})
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	mux.HandleFunc("/large", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, strings.Repeat("1", 5000)) })
	mux.HandleFunc("/broken", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "half")
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv
}

func TestHTTP(t *testing.T) {
	srv, p := site(t), prober(t, Options{})
	host := strings.TrimPrefix(srv.URL, "http://")
	for _, c := range []struct {
		name, path       string
		s                spec.HTTP
		value            *float64
		level, text, err string
	}{
		{"status", "/ok", spec.HTTP{Measure: "status"}, is(200), "", "200 OK, 7 bytes in", ""},
		{"size", "/ok", spec.HTTP{Measure: "size"}, is(7), "", "", ""},
		{"match", "/ok", spec.HTTP{Measure: "regexp", Regexp: `^[0-9]+`}, is(7), "", "", ""},
		{"group", "/ok", spec.HTTP{Measure: "regexp", Regexp: `([0-9]+) items`}, is(7), "", "", ""},
		{"no match", "/ok", spec.HTTP{Measure: "regexp", Regexp: `[0-9]+ orders`}, nil, "", "200 OK", "nothing in the body matches"},
		{"no number", "/ok", spec.HTTP{Measure: "regexp", Regexp: `items`}, nil, "", "", `"items" is not a number`},
		{"down", "/down", spec.HTTP{Measure: "status"}, is(503), "CRITICAL", "unexpected status 503 Service Unavailable", ""},
		{"expected", "/down", spec.HTTP{Measure: "status", Expect: []int{503}}, is(503), "", "503", ""},
		{"unexpected", "/ok", spec.HTTP{Measure: "status", Expect: []int{204}}, is(200), "CRITICAL", "unexpected", ""},
		{"json", "/json", spec.HTTP{Measure: "json", JSON: "data.items.0.count"}, is(3), "", "", ""},
		{"redirect", "/moved", spec.HTTP{Measure: "size"}, is(7), "", "200", ""},
		{"redirect not followed", "/moved", spec.HTTP{Measure: "status", NoRedirects: true}, is(302), "", "302 Found", ""},
		{"redirects without end", "/round", spec.HTTP{Measure: "status"}, nil, "CRITICAL", "", "more than 10 redirects"},
		{"as large as allowed", "/large", spec.HTTP{Measure: "size", MaxBytes: 5000}, is(5000), "", "", ""},
		{"too large", "/large", spec.HTTP{Measure: "size", MaxBytes: 4999}, nil, "", "no more than 4999", "raise max_bytes"},
		{"too large but only timed", "/large", spec.HTTP{Measure: "status", MaxBytes: 10}, is(200), "", "no more than 10 bytes were read", ""},
		{"broken off", "/broken", spec.HTTP{Measure: "size"}, nil, "CRITICAL", "", "broke off after 4 bytes"},
		{"down and no json", "/down", spec.HTTP{Measure: "json", JSON: "a"}, nil, "CRITICAL", "503", "unexpected status 503 Service Unavailable: the body is not JSON"},
		{"what", "/ok", spec.HTTP{Measure: "weight"}, nil, "", "", "write time, first_byte, status"},
	} {
		c.s.URL = srv.URL + c.path
		want(t, c.name, measure(t, p, spec.Source{HTTP: &c.s}), c.value, c.level, c.text, c.err)
	}
	r := measure(t, p, spec.Source{HTTP: &spec.HTTP{URL: srv.URL + "/echo", Method: "POST", Body: "17", Measure: "regexp", Regexp: `POST x\.example  p ([0-9]+)$`,
		Headers: map[string]spec.Text{"Host": {Plain: "x.example"}, "X-Plain": {Plain: "p"}}}})
	want(t, "post", r, is(17), "", "", "")
	r = measure(t, p, spec.Source{HTTP: &spec.HTTP{URL: srv.URL + "/ok"}})
	if r.Null || r.Value <= 0 || r.Value != r.Took.Seconds() {
		t.Errorf("time: got %v of %s", r.Value, r.Took)
	}
	first := measure(t, p, spec.Source{HTTP: &spec.HTTP{URL: srv.URL + "/ok", Measure: "first_byte"}})
	if first.Null || first.Value <= 0 || first.Value > first.Took.Seconds() {
		t.Errorf("first byte: got %v of %s", first.Value, first.Took)
	}
	srv.Close()
	want(t, "refused", measure(t, p, spec.Source{HTTP: &spec.HTTP{URL: srv.URL + "/ok?token=abc"}}), nil, "CRITICAL", "", "http://"+host+" refuses connections; start it")
	want(t, "no address", measure(t, p, spec.Source{HTTP: &spec.HTTP{URL: "http://[::1"}}), nil, "", "", "write an address such as")
}

// Every probe connects, so that its time is whole, over HTTP/2 too.
func TestHTTPConnectsEveryTime(t *testing.T) {
	for _, number := range []float64{1.1, 2} {
		var connections atomic.Int32
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }))
		srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				connections.Add(1)
			}
		}
		if number == 2 {
			srv.EnableHTTP2 = true
			srv.StartTLS()
		} else {
			srv.Start()
		}
		p := prober(t, Options{})
		for range 3 {
			r := measure(t, p, spec.Source{HTTP: &spec.HTTP{URL: srv.URL, Insecure: true, Measure: "regexp", Regexp: `^HTTP/([12]\.[01])$`}})
			want(t, fmt.Sprint(number), r, is(number), "", "", "")
		}
		if n := connections.Load(); n != 3 {
			t.Errorf("HTTP/%v: %d connections for 3 probes", number, n)
		}
		srv.Close()
	}
}

func TestHTTPDeadline(t *testing.T) {
	stop := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	defer close(stop)
	p := prober(t, Options{Timeout: 300 * time.Millisecond})
	r := p.Probe(context.Background(), &spec.Source{HTTP: &spec.HTTP{URL: srv.URL}})
	want(t, "silent", r, nil, "CRITICAL", "", "did not answer in time; raise the check's timeout")
}

// Secret headers are sent, but neither to another origin nor to people.
func TestHTTPSecrets(t *testing.T) {
	srv, other, p := site(t), site(t), prober(t, Options{})
	t.Setenv("PROBE_KEY", "hunter2")
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("4711\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(url, pattern string, key spec.Secret) string {
		r := measure(t, p, spec.Source{HTTP: &spec.HTTP{URL: url, Measure: "regexp", Regexp: pattern, Headers: map[string]spec.Text{"X-Key": {Secret: &key}}}})
		return fmt.Sprint(r.Value, " ", r.Text, errorText(r))
	}
	if got := ask(srv.URL+"/echo", `GET \S+ ([0-9]+) `, spec.Secret{File: file}); !strings.HasPrefix(got, "4711") {
		t.Errorf("the header did not arrive: %s", got)
	}
	if got := ask(srv.URL+"/away?to="+other.URL+"/echo", `GET \S+ ([a-z0-9]+) `, spec.Secret{File: file}); !strings.Contains(got, "nothing in the body matches") {
		t.Errorf("the header went to another origin: %s", got)
	}
	if got := ask(srv.URL+"/away?to=/echo", `GET \S+ ([0-9]+) `, spec.Secret{File: file}); !strings.HasPrefix(got, "4711") {
		t.Errorf("the header did not follow a redirect within the origin: %s", got)
	}
	got := ask(srv.URL+"/echo", `GET \S+ (\S+) `, spec.Secret{Env: "PROBE_KEY"})
	if strings.Contains(got, "hunter2") || !strings.Contains(got, `"[secret]" is not a number`) {
		t.Errorf("what the server repeated was printed: %s", got)
	}
	if got := ask(srv.URL+"/echo", "", spec.Secret{Env: "PROBE_NONE"}); !strings.Contains(got, "header X-Key: the environment variable PROBE_NONE is not set") {
		t.Error(got)
	}
}

func TestHTTPCertificates(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }))
	srv.Config.ErrorLog = quiet
	defer srv.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	p := prober(t, Options{})
	for _, c := range []struct {
		s          spec.HTTP
		value      *float64
		level, err string
	}{
		{spec.HTTP{}, nil, "CRITICAL", "name its authority's certificate by ca"},
		{spec.HTTP{CA: ca}, is(8), "", ""},
		{spec.HTTP{Insecure: true}, is(8), "", ""},
		{spec.HTTP{CA: ca + "x"}, nil, "", "name a file of certificates in PEM"},
		{spec.HTTP{CA: "http_test.go"}, nil, "", "holds no certificate"},
	} {
		c.s.URL, c.s.Measure = srv.URL, "size" // HTTP/1.1
		want(t, fmt.Sprintf("%+v", c.s), measure(t, p, spec.Source{HTTP: &c.s}), c.value, c.level, "", c.err)
	}
}
