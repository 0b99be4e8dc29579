package accesslog

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
)

// However many services are imported, few are kept; what was learned of those
// that are not is there when they come again.
func TestServicesAreBounded(t *testing.T) {
	l := newLedger()
	in := testIngester(l, newMemory())
	followed, err := in.feed(t.Context(), compile(t, Config{Service: "followed", Format: plain}), 1, "x")
	if err != nil {
		t.Fatal(err)
	}
	// So many names that they are one route.
	names := ""
	for i := range 400 {
		names += fmt.Sprintf("1772366370.250 0.001 200 GET /user/%s\n", strings.Repeat(string(rune('g'+i%20)), 3+i/20))
	}
	if err := importText(t, in, Config{Service: "first", Format: plain}, names); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxServices {
		if err := importText(t, in, Config{Service: fmt.Sprint("s", i), Format: plain}, "1772366370.250 0.001 200 GET /x\n"); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(in.services); n != maxServices {
		t.Errorf("%d services are kept, want %d", n, maxServices)
	}
	if in.services["followed"] != followed.svc || in.services["first"] != nil {
		t.Errorf("the one that is followed is to be kept, and the one of long ago is not")
	}
	if err := importText(t, in, Config{Service: "first", Format: plain}, "1772366371.250 0.001 200 GET /user/new\n"); err != nil {
		t.Fatal(err)
	}
	if got := l.counts[`first "GET /user/{name}" app server ok`]; got != 401 {
		t.Errorf("%d requests of the route learned, want 401", got)
	}
	// Where all are being read, none is taken away.
	for i := range 2 * maxServices {
		if _, err := in.service(t.Context(), fmt.Sprint("held", i)); err != nil {
			t.Fatal(err)
		}
	}
	if in.services["held0"] == nil || in.services["followed"] != followed.svc {
		t.Error("a service that is read was forgotten")
	}
}

func TestImportsAtOnceAreBounded(t *testing.T) {
	door := NewDoor(testIngester(newLedger(), newMemory()))
	srv := httptest.NewServer(door)
	defer srv.Close()
	defer door.Close()
	post := func(service string, body io.Reader) (*http.Response, error) {
		return http.Post(srv.URL+"?"+url.Values{"service": {service}, "format": {plain}}.Encode(), "text/plain", body)
	}
	const line = "1772366370.250 0.001 200 GET /x\n"
	done := make(chan int)
	var pipes []*io.PipeWriter
	for i := range maxImports {
		r, w := io.Pipe()
		pipes = append(pipes, w)
		go func() {
			status := 0
			if resp, err := post(fmt.Sprint("s", i), r); err == nil {
				status = resp.StatusCode
				resp.Body.Close()
			}
			done <- status
		}()
		if _, err := io.WriteString(w, line); err != nil { // it is read once the import is under way
			t.Fatal(err)
		}
	}
	for {
		door.mu.Lock()
		n := len(door.cancel)
		door.mu.Unlock()
		if n == maxImports {
			break
		}
		runtime.Gosched()
	}
	resp, err := post("more", strings.NewReader(line))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "10" || !strings.Contains(string(body), "4 imports are under way") {
		t.Errorf("got %d %s, %v", resp.StatusCode, body, err)
	}
	for _, w := range pipes {
		w.Close()
		if status := <-done; status != 200 {
			t.Errorf("an import under way answers %d", status)
		}
	}
	resp, err = post("more", strings.NewReader(line))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("got %d when the others have ended", resp.StatusCode)
	}
}
