package mirror

import (
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
)

// A shadow that is meant to get writes has diverged from the first that it did
// not get, be it too long, or left out by chance, or asked for during a pause.
// One that gets none, or those of some keys, has not.
func TestWritesNotCopied(t *testing.T) {
	primary := newBackend(t, "h1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	for _, c := range []struct {
		name, method string
		body         int
		with         func(*Options)
		why          string // empty: it has not diverged
	}{
		{"too long", "PUT", 11, func(o *Options) {}, "a write was not copied, as its body is above the limit"},
		{"just not too long", "PUT", 10, func(o *Options) {}, ""},
		{"too long a read", "GET", 11, func(o *Options) {}, ""},
		{"paused", "PUT", 1, func(o *Options) { o.Paused = true }, "a write came while the session was paused"},
		{"paused, but not meant to be copied", "PUT", 1, func(o *Options) { o.Paused, o.Path = true, "^/other" }, ""},
		{"paused, without unsafe methods", "PUT", 1, func(o *Options) { o.Paused, o.Unsafe = true, false }, ""},
		{"not of the share", "PUT", 1, func(o *Options) { o.Share = 0 }, "a write was not of the share that is copied"},
		{"of a key that is out", "PUT", 1, func(o *Options) { o.Share, o.By = 0, "header:X-User" }, ""},
	} {
		for _, from := range []string{"h1", "h2c"} {
			t.Run(c.name+" "+from, func(t *testing.T) {
				shadow := newBackend(t, "h1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
				}))
				s := newSession(t, from, primary.URL, func(o *Options) {
					o.Candidates = []Pool{{"", []string{shadow.URL}}}
					o.Unsafe, o.BodyLimit = true, 10
					c.with(o)
				})
				req, err := http.NewRequest(c.method, "http://localhost/", strings.NewReader(strings.Repeat("x", c.body)))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("X-User", "a")
				resp, err := newClient(t, from, s.Addr().String()).Do(req)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				target := s.State().Shadows[0]
				if target.DivergedWhy != c.why || math.IsNaN(float64(target.Diverged)) != (c.why == "") {
					t.Errorf("diverged at %v: %q, want %q", target.Diverged, target.DivergedWhy, c.why)
				}
			})
		}
	}
}
