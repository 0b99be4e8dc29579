//go:build servers

package contact

import (
	"context"
	"fmt"
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

const (
	javaAgent       = "2.14.0"
	copyOfMaven     = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
	answeredWithin  = 15 * time.Second
	requestsOfAgent = 50
)

// agent returns the path of OpenTelemetry's agent for Java, fetched once into the cache
// directory.
func agent(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"mvn", "javac", "java"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v: scripts/install-servers installs it", err)
		}
	}
	cache, err := program.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	jar := filepath.Join(cache, "opentelemetry-javaagent-"+javaAgent+".jar")
	if _, err := os.Stat(jar); err == nil {
		return jar
	}
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "mvn", "--quiet", "--batch-mode", copyOfMaven,
		"-Dartifact=io.opentelemetry.javaagent:opentelemetry-javaagent:"+javaAgent, "-DoutputDirectory="+dir).CombinedOutput()
	if err != nil {
		t.Skipf("Maven Central has not answered with the agent: %v\n%s", err, out)
	}
	content, err := os.ReadFile(filepath.Join(dir, filepath.Base(jar)))
	if err != nil {
		t.Fatal(err)
	}
	part := fmt.Sprintf("%s.%d", jar, os.Getpid()) // another test may fetch it too
	if err := os.WriteFile(part, content, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(part, jar); err != nil {
		t.Fatal(err)
	}
	return jar
}

// The agent for Java at its defaults, which are http/protobuf, traces, metrics and logs:
// every request is counted, so are log records, and it warns of nothing.
func TestJavaAgent(t *testing.T) {
	t.Parallel()
	jar, classes := agent(t), t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "javac", "-d", classes, "testdata/Main.java").CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	s, err := program.StartTailscope(t.Context(), filepath.Join(t.TempDir(), "data"), "--ingest-flush=200ms")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = s.Stop(context.Background()) })

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "java", "-javaagent:"+jar, "-cp", classes, "Main", fmt.Sprint(requestsOfAgent))
	cmd.Env = append(os.Environ(), "OTEL_SERVICE_NAME=orders", "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+s.OTLPHTTP)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("java: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "[otel.javaagent") && !strings.Contains(line, "] INFO ") {
			t.Errorf("the agent warns: %s", line)
		}
	}

	c := &client.Client{Address: s.URL}
	for _, of := range []struct{ family, match string }{
		{"span_duration_seconds", `{service="orders",kind="server"}`},
		{"span_duration_seconds", `{service="orders",kind="client"}`},
		// The process ends before the agent's first minute is over: all of each is in one point.
		{"http_server_request_duration_seconds", `{service="orders"}`},
		{"http_client_request_duration_seconds", `{service="orders"}`},
	} {
		await(t, fmt.Sprintf("%s%s: %d observations", of.family, of.match, requestsOfAgent), func() bool { return observations(ctx, c, of.family, of.match) == requestsOfAgent })
	}
	await(t, "log_records_total is the number of records", func() bool {
		v, err := instant(ctx, s.URL, `sum(log_records_total{service="orders",severity="warn"})`)
		return err == nil && v == requestsOfAgent
	})
}

// observations returns how many a distribution has, 0 if nobody has sent it yet.
func observations(ctx context.Context, c *client.Client, family, match string) (n uint64) {
	r, err := c.Distribution(ctx, api.DistributionRequest{Selection: api.Selection{Family: family, Match: match, Start: "now-15m", End: "now+1m"}})
	if err != nil {
		return 0
	}
	for _, g := range r.Groups {
		n += g.Count
	}
	return n
}

// await fails the test unless a condition holds soon.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(answeredWithin); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("not so after %s: %s", answeredWithin, what)
			return
		}
	}
}
