package mirror

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tailscope/internal/experiment/mirror/record"
)

// TestComparedAndRecorded has answers that differ at one place, and a file of
// what was asked, over HTTP/1.1 and HTTP/2.
func TestComparedAndRecorded(t *testing.T) {
	answer := func(price string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"id":"7","price":`+price+`}`)
		})
	}
	for _, from := range []string{"h1", "h2c"} {
		t.Run(from, func(t *testing.T) {
			primary, candidate := newBackend(t, "h1", answer("1")), newBackend(t, "h1", answer("2"))
			file := filepath.Join(t.TempDir(), "session.rec")
			s := newSession(t, from, primary.URL, func(o *Options) {
				o.Candidates = []Pool{{Servers: []string{candidate.URL}}}
				o.Unsafe = true
				o.Compare = []string{"status", "json"}
				o.Record, o.RecordBodies = file, true
			})
			c := newClient(t, from, s.Addr().String())
			long := strings.Repeat("x", 100000)
			for _, a := range []ask{
				{method: "GET", target: "/a?token=secret", header: http.Header{"Authorization": {"Bearer secret"}, "X-A": {"1"}}},
				{method: "POST", target: "/b", body: []byte("short")},
				{method: "POST", target: "/c", body: []byte(long), chunked: true},
			} {
				if g, err := a.do(t, c, "http"); err != nil || g.Status != 200 {
					t.Fatalf("got %+v, %v", g, err)
				}
			}
			waitFor(t, func() bool {
				m := s.State()
				return m.Differences != nil && m.Differences.Compared == 3
			}, func() any { return s.State().Differences })
			places := ""
			for _, r := range s.State().Differences.Rows {
				if r.Raw > 0 {
					places += r.Place + "\n"
				}
			}
			if !strings.Contains(places, "body .price") || strings.Contains(places, ".id") {
				t.Errorf("differences at %q", places)
			}
			c.CloseIdleConnections()
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r := s.State().Recording; r == nil || r.Requests != 3 || r.Dropped != 0 || r.Error != "" {
				t.Errorf("got %+v", r)
			}
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			in, err := record.Open(f)
			if err != nil {
				t.Fatal(err)
			}
			bodies := map[string]string{}
			for {
				var e record.Entry
				err := in.Next(&e)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if e.Status != 200 || e.Total <= 0 || e.FirstByte <= 0 || e.AnswerBytes == 0 || e.Host != "shop.test" || e.Operation == "" {
					t.Errorf("entry %+v", e)
				}
				bodies[e.Method+" "+strings.Split(e.Target, "?")[0]] = string(e.Body)
				for _, f := range e.Fields {
					if strings.Contains(f.Value, "secret") || strings.Contains(e.Target, "secret") {
						t.Errorf("a secret is in the file: %+v", e)
					}
				}
			}
			if bodies["POST /b"] != "short" || bodies["POST /c"] != long || len(bodies) != 3 {
				t.Errorf("bodies of %d entries: %q", len(bodies), bodies["POST /b"])
			}
			// A file that is there is not written over.
			o := Default()
			o.Listen, o.Primary, o.Record, o.Log = "127.0.0.1:0", primary.URL, file, quiet(t)
			away(&o)
			if s, err := Start(t.Context(), o); err == nil {
				s.Close(t.Context())
				t.Error("a record was written over")
			} else if !strings.Contains(err.Error(), "record: ") {
				t.Errorf("got %v", err)
			}
		})
	}
}
