package mirror

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

func TestConnectionsWithin(t *testing.T) {
	for _, c := range []struct {
		files          uint64
		servers, asked int
		want           int
	}{
		{0, 2, 256, 256},
		{1 << 20, 2, 256, 256},
		{1024, 2, 256, 256},
		{1023, 2, 256, 255},
		{256, 2, 256, 64},
		{256, 3, 256, 42},
		{256, 3, 8, 8},
		{256, 1000, 8, 1},
		{256, 0, 8, 8},
		{1<<64 - 1, 1, 1 << 16, 1 << 16}, // RLIM_INFINITY
	} {
		if got := connectionsWithin(c.files, c.servers, c.asked); got != c.want {
			t.Errorf("%d files, %d servers, %d asked for: %d, want %d", c.files, c.servers, c.asked, got, c.want)
		}
	}
}

// A session that asks for more connections than there may be files says so, and
// is bounded by them.
func TestFewFiles(t *testing.T) {
	files := openFiles()
	if files == 0 || files > 1<<17 {
		t.Skipf("%d files may be open, which no option reaches", files)
	}
	primary := newBackend(t, "h1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }))
	var text logBuffer
	s := newSession(t, "h1", primary.URL, func(o *Options) {
		away(o)
		o.Connections = 1 << 16
		o.Log = slog.New(slog.NewTextHandler(&text, nil))
	})
	want := connectionsWithin(files, len(s.o.shadows()), 1<<16)
	if s.o.Connections != want {
		t.Errorf("%d connections, want %d of %d files", s.o.Connections, want, files)
	}
	if !strings.Contains(text.String(), fmt.Sprintf("connections=%d", want)) || !strings.Contains(text.String(), "ulimit -n") {
		t.Errorf("the log says %s", text.String())
	}
}
