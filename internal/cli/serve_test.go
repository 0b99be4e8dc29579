package cli

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A served program is ready when it says so, refuses to share its directory,
// and ends with exit code 0 when asked to.
func TestServe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{"serve", "--data", dir, "--listen", "127.0.0.1:0", "--otlp-grpc", "127.0.0.1:0", "--otlp-http", "", "--log-level", "error"}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, in := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- Run(ctx, args, strings.NewReader(""), in, io.Discard)
		in.Close()
	}()
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("ended before it was ready")
	}
	url, ok := strings.CutPrefix(lines.Text(), "tailscope is ready: ")
	if !ok {
		t.Fatalf("got %q", lines.Text())
	}
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "  OTLP over gRPC on 127.0.0.1:") {
		t.Errorf("got %q", lines.Text())
	}
	r, err := http.Get(url + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Errorf("/readyz answers %s", r.Status)
	}

	_, stderr, second := run(t, args...)
	if second != exitFailed || !strings.Contains(stderr, "in use by another process") ||
		!strings.Contains(stderr, "hint: another tailscope has "+dir+" open: stop it, or give this one a directory of its own with --data") {
		t.Errorf("a second server ends with %d:\n%s", second, stderr)
	}

	stop()
	for lines.Scan() {
		t.Errorf("unexpected output: %s", lines.Text())
	}
	select {
	case got := <-code:
		if got != exitOK {
			t.Errorf("exit code %d, want 0", got)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("does not stop")
	}
}
