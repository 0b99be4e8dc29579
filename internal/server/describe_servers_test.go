//go:build servers

package server

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/test/program"
)

// Each server answers for both, and says which node is away and that what it accepts is not
// stored.
func TestDescribeServersOnClickHouse(t *testing.T) {
	c, err := program.StartClickHouse(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	first, second := testConfig(t.TempDir()), testConfig(t.TempDir())
	first.Store, second.Store = c.Address("tailscope"), c.Address("tailscope")
	a, b := start(t, first), start(t, second)
	ask := func(s *Server) (r api.ClusterResponse) {
		t.Helper()
		_, body := get(t, "http://"+s.Addr()+"/api/v1/cluster")
		if err := json.Unmarshal([]byte(body), &r); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		return r
	}
	// until waits for what a second server does by and by.
	until := func(what string, is func(api.ClusterResponse) bool) {
		t.Helper()
		var r api.ClusterResponse
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
			if r = ask(a); is(r) {
				return
			}
		}
		t.Fatalf("%s: %+v", what, r)
	}
	until("both are alive and share the work", func(r api.ClusterResponse) bool {
		var works []string
		for _, s := range r.Servers {
			works = append(works, s.Works...)
		}
		return r.Server == a.data.writer && r.Store == first.Store && len(r.Servers) == 2 && r.Servers[0].Alive && r.Servers[1].Alive && len(works) == len(slices.Compact(slices.Sorted(slices.Values(works)))) &&
			len(works) > 0 && len(r.Nodes) == 2 && r.Nodes[0].Answers && r.Nodes[1].Answers && r.Statements > 10 && len(r.Findings) == 0
	})
	loaded(t, b, 100, 1)
	until("rows are on both nodes", func(r api.ClusterResponse) bool { return r.Nodes[0].Rows > 0 && r.Nodes[1].Rows > 0 })

	c.Nodes[1].Kill()
	until("a node is away", func(r api.ClusterResponse) bool {
		return r.Nodes[0].Answers && !r.Nodes[1].Answers && r.Nodes[1].Away > 0 && len(r.Findings) == 1 && r.Findings[0].Where == c.Nodes[1].HTTP
	})
	if err := c.Restart(t.Context(), c.Nodes[1]); err != nil {
		t.Fatal(err)
	}
	until("it is back", func(r api.ClusterResponse) bool { return r.Nodes[1].Answers && len(r.Findings) == 0 })
	stop(t, b)
	until("the other has left", func(r api.ClusterResponse) bool {
		return slices.ContainsFunc(r.Servers, func(s api.ClusterServer) bool { return s.Name == b.data.writer && !s.Alive })
	})
}
