package accesslog

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
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
	door := NewImportHandler(testIngester(newLedger(), newMemory()))
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
		if _, err := io.WriteString(w, strings.Repeat(line, firstBytes/len(line)+1)); err != nil {
			t.Fatal(err)
		}
	}
	for {
		door.mu.Lock()
		n := door.slots
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
	if err != nil || resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "10" || !strings.Contains(string(body), "4 imports are in progress") {
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

// Bodies that drip hold no slot, and are cut off, as is one that had a fast
// beginning; of an import whose reader is slow that is not asked for.
func TestSlowImports(t *testing.T) {
	var nanos atomic.Int64
	now := func() time.Time { return time.Unix(1000, nanos.Load()) }
	door := NewImportHandler(testIngester(newLedger(), newMemory()))
	door.arriving.Now, door.streams.Now = now, now
	srv := httptest.NewServer(door)
	defer srv.Close()
	defer door.Close()
	post := func(service string, body io.Reader) (int, string) {
		resp, err := http.Post(srv.URL+"?"+url.Values{"service": {service}, "format": {plain}}.Encode(), "text/plain", body)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	type answer struct {
		status int
		body   string
	}
	const line = "1772366370.250 0.001 200 GET /x\n"
	const drips = 5 * maxImports
	answers := make(chan answer, drips+1)
	begin := func(service, lines string) *io.PipeWriter {
		r, w := io.Pipe()
		go func() {
			status, body := post(service, r)
			answers <- answer{status, body}
		}()
		if _, err := io.WriteString(w, lines); err != nil {
			t.Fatal(err)
		}
		return w
	}
	for i := range drips {
		defer begin(fmt.Sprint("drip", i), line).Close()
	}
	long := begin("long", strings.Repeat(line, 3*firstBytes/len(line)))
	defer long.Close()
	until := func(what string, ok func() bool) {
		t.Helper()
		for range 500 {
			if ok() {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("after 5 s still not: %s", what)
	}
	slots := func() int {
		door.mu.Lock()
		defer door.mu.Unlock()
		return door.slots
	}
	until("the long one has a slot", func() bool { return slots() == 1 && door.Stats().Arriving == drips })
	if status, body := post("usual", strings.NewReader(line)); status != 200 {
		t.Errorf("beside those that drip an import gets %d %s", status, body)
	}
	nanos.Add(int64(grace + firstBytes/(8<<10)*time.Second))
	door.arriving.Sweep()
	door.streams.Sweep()
	sending := 0 // the long one may still be sending when it is cut off, and then learns that first
	for range drips + 1 {
		a := <-answers
		if a.status == 0 && strings.Contains(a.body, "write tcp") && sending == 0 {
			sending++
		} else if a.status != http.StatusRequestTimeout || !strings.Contains(a.body, "import the same file again") {
			t.Errorf("cut off with %d %s", a.status, a.body)
		}
	}
	until("nothing is held", func() bool { return slots() == 0 && door.Stats() == ImportStats{Slow: drips + 1} })
	if b := door.arriving.Stats().Bytes; b != 0 {
		t.Errorf("%d bytes are held", b)
	}
}
