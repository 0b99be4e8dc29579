//go:build servers

package contact

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/client"
	"tailscope/test/program"
)

// clicks is the number of requests of a page, each of which is two spans: the click and the
// call of fetch within it.
const clicks = 20

// chromium returns the path of the browser.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no chromium: scripts/install-servers installs it")
	return ""
}

// bundle returns the script of the page with OpenTelemetry's SDK in it, whose packages are
// installed once into the cache directory.
func bundle(t *testing.T) []byte {
	t.Helper()
	cache, err := program.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.ReadFile("testdata/browser/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, fmt.Sprintf("browser-%x", sha256.Sum256(lock))[:24])
	if _, err := os.Stat(filepath.Join(dir, "installed")); err != nil {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(dir, os.DirFS("testdata/browser")); err != nil {
			t.Fatal(err)
		}
		install := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
		install.Dir = dir
		if out, err := install.CombinedOutput(); err != nil {
			t.Skipf("the packages of the SDK are not installed: %v\n%s", err, out)
		}
		if err := os.WriteFile(filepath.Join(dir, "installed"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "node_modules", ".bin", "esbuild"),
		"testdata/browser/page.js", "--bundle", "--format=esm", "--log-level=warning")
	cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"))
	var warned strings.Builder
	cmd.Stderr = &warned
	script, err := cmd.Output()
	if err != nil {
		t.Fatalf("esbuild: %v\n%s", err, &warned)
	}
	return script
}

// visit has a browser open a page of a host, which is a name of this machine, and returns what
// the SDK in it warned of.
func visit(t *testing.T, browser string, script []byte, host, service, otlp string) (warned []string) {
	t.Helper()
	done := make(chan []string, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!doctype html><link rel="icon" href="data:,"><script type="module" src="page.js"></script>`)
	})
	mux.HandleFunc("GET /page.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write(script)
	})
	mux.HandleFunc("GET /cart", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })
	mux.HandleFunc("POST /done", func(_ http.ResponseWriter, r *http.Request) {
		var warned []string
		if err := json.NewDecoder(r.Body).Decode(&warned); err != nil {
			t.Error(err)
		}
		done <- warned
	})
	site := httptest.NewServer(mux)
	defer site.Close()
	at, err := url.Parse(site.URL)
	if err != nil {
		t.Fatal(err)
	}
	page := url.URL{Scheme: "http", Host: host + ":" + at.Port(), Path: "/", RawQuery: url.Values{
		"to": {"http://" + otlp}, "service": {service}, "clicks": {fmt.Sprint(clicks)},
	}.Encode()}
	dir := t.TempDir()
	p, err := program.Start(filepath.Join(dir, "log"), nil, browser, "--headless", "--no-sandbox", "--disable-gpu",
		"--no-first-run", "--user-data-dir="+filepath.Join(dir, "profile"), "--remote-debugging-port=0", page.String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	select {
	case warned = <-done:
	case <-p.Done():
		t.Fatalf("the browser ended:\n%s", p.Log())
	case <-time.After(time.Minute):
		t.Fatalf("the page at %s is not done after a minute:\n%s", page.String(), p.Log())
	}
	return warned
}

// OpenTelemetry's SDK for browsers sends from a page of another origin. If its host is allowed
// each span is counted and the SDK warns of nothing; if not none is, and the log names the
// setting, as browsers keep the server's answer from the page.
func TestBrowserSDK(t *testing.T) {
	t.Parallel()
	browser, script := chromium(t), bundle(t)
	s, err := program.StartTailscope(t.Context(), filepath.Join(t.TempDir(), "data"), "--ingest-flush=200ms", "--set", "otlp.origins=localhost")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = s.Stop(context.Background()) })
	c := &client.Client{Address: s.URL}

	if warned := visit(t, browser, script, "localhost", "page", s.OTLPHTTP); len(warned) > 0 {
		t.Errorf("the SDK warns: %s", strings.Join(warned, "\n"))
	}
	for _, kind := range []string{"internal", "client"} {
		match := fmt.Sprintf(`{service="page",kind=%q}`, kind)
		await(t, fmt.Sprintf("%s has %d spans", match, clicks), func() bool { return observations(t.Context(), c, "span_duration_seconds", match) == clicks })
	}

	if warned := visit(t, browser, script, "other.localhost", "other", s.OTLPHTTP); len(warned) == 0 {
		t.Error("the SDK of a page that is refused warns of nothing")
	}
	if strings.Count(s.Log(), "otlp.origins") != 1 || !strings.Contains(s.Log(), "http://other.localhost:") {
		t.Errorf("the log does not say once which setting allows the page:\n%s", s.Log())
	}
	services, err := c.Services(t.Context(), api.ServicesRequest{Selection: api.Selection{Start: "now-15m"}})
	if err != nil || len(services.Services) > 1 {
		t.Errorf("spans of the page that is refused are counted: %+v, %v", services, err)
	}
}
