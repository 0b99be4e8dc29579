package mirror

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// OPTIONS * asks the server as a whole (RFC 9110, 9.3.7): the primary answers it
// and nobody before it, over whatever protocol it comes.
func TestAsterisk(t *testing.T) {
	primary := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", r.Method+" "+r.RequestURI)
		w.WriteHeader(http.StatusTeapot)
	}))
	primary.Config.DisableGeneralOptionsHandler = true
	primary.Start()
	t.Cleanup(primary.Close)
	for _, from := range []string{"h1", "h2c"} {
		t.Run(from, func(t *testing.T) {
			s := newSession(t, from, primary.URL, away)
			resp, err := newClient(t, from, s.Addr().String()).Do(&http.Request{
				Method: http.MethodOptions,
				URL:    &url.URL{Scheme: "http", Host: "localhost", Opaque: "*"},
			})
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusTeapot || resp.Header.Get("Allow") != "OPTIONS *" {
				t.Errorf("status %d, Allow %q: the primary was not asked", resp.StatusCode, resp.Header.Get("Allow"))
			}
		})
	}
}
