package cli

import (
	"testing"

	"tailscope/api"
)

func TestQueryTenantsOfNone(t *testing.T) {
	srv, _ := answering(t, &api.TenantsResponse{})
	_, stderr, code := run(t, "query", "tenants", "--service", "shop", "--server", srv.URL)
	want := "tailscope: no request named a tenant in that range\nhint: set the attribute tenant.id on the spans of requests; docs/tenants.md has the lines for Python, Java, Node and Go\n"
	if code != exitFailed || stderr != want {
		t.Errorf("exit code %d, %q, want %q", code, stderr, want)
	}
}
