//go:build servers

package e2e

import (
	"context"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
)

// Schemathesis makes requests out of the API's own document, good ones and bad
// ones. None is answered by a 5xx, and every answer is as the document says.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(filepath.Dir(pythonWith(t, "testdata/schemathesis.txt")), "schemathesis")
	s := start(t)
	goSpans(t, s, "http", resource.NewSchemaless(attribute.String("service.name", "cart")), rand.New(rand.NewPCG(1, 2)), 400)
	s.awaitCount("span_duration_seconds", `{service="cart"}`, 400)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "run", s.URL+"/openapi.json",
		"--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance",
		"--phases", "examples,coverage,fuzzing", "--max-examples", "8", "--seed", "1",
		"--suppress-health-check", "all", "--request-timeout", "60", "--continue-on-failure", "--no-color")
	cmd.Dir = t.TempDir() // it keeps what it found in its working directory
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, tail(string(out), 200))
	}
}
