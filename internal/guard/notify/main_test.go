package notify

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tailscope/internal/guard/check/event"
)

func TestMain(m *testing.M) {
	if what := os.Getenv("NOTIFY_TEST_RECEIVER"); what != "" {
		receive(what, os.Getenv("NOTIFY_TEST_ADDRESS"), os.Getenv("NOTIFY_TEST_FILE"))
		return
	}
	goleak.VerifyTestMain(m)
}

// t0 is when tests begin: the moment at which synctest's clock does.
var t0 = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func noBands() event.Bands {
	return event.Bands{Threshold: nan, LowCritical: nan, LowWarning: nan, HighWarning: nan, HighCritical: nan}
}

// someResult is the n-th of a check, with n as its value.
func someResult(check string, n int, at time.Time) event.Result {
	b := noBands()
	b.Threshold, b.HighWarning, b.HighCritical, b.Rule = 100, 110, 130, "profile office"
	r := event.Result{
		Key: event.Key{Check: check, Labels: `operation="GET /a", service="shop"`}, Host: "shop", Service: check,
		Time: at, Bands: b, Unit: "ms",
	}
	r.Reading.Value = float64(n)
	r.Reading.Text = fmt.Sprintf("number %d", n)
	return r
}

// someEvent is one of an incident's.
func someEvent(incident string, seq int, kind event.Kind, from, to event.Level, at time.Time) event.Event {
	b := noBands()
	b.Threshold, b.HighWarning, b.HighCritical = 100, 110, 130
	return event.Event{
		Incident: incident, Seq: seq, Kind: kind,
		Key:    event.Key{Check: "orders", Labels: `service="shop"`},
		Labels: map[string]string{"service": "shop", "team": "blue"}, Host: "shop", Service: "orders",
		Time: at, Opened: at, Since: at.Add(-time.Minute), From: from, To: to, Value: 131.5, Bands: b, Unit: "ms",
		Text: fmt.Sprintf("orders is %s: 131.5ms, %d", to, seq),
		Link: "https://tailscope.example/checks?id=orders",
	}
}

// logbook keeps what is logged.
type logbook struct {
	mu sync.Mutex
	strings.Builder
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(p)
}

func (l *logbook) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.String()
}

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// receive is a small receiver in a process of its own, that can be killed: it
// appends what it gets to a file, before it acknowledges, if it does.
func receive(what, address, path string) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		panic(err)
	}
	if what == "webhook" {
		panic(http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(f, "%s %s\n", r.Header.Get(HeaderKey), b)
		})))
	}
	for {
		c, err := l.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(f, c)
		}()
	}
}
