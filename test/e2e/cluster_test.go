//go:build servers

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/proc"
	"tailscope/test/program"
	"tailscope/test/sender"
)

// Two servers share three shards. The one that guards is frozen while a check goes bad, and
// woken once the other has told of it; then a shard dies, comes back, and has a full disk
// for a while. No event is told twice, nothing acknowledged is lost or doubled, and what is
// missing is named.
func TestClusterFaults(t *testing.T) {
	t.Parallel()
	c, err := program.StartClickHouse(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	door, err := program.NewDoor(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = door.Shut() }()
	told := func() string {
		t.Helper()
		got, err := door.Told()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	tells := func(want string) {
		t.Helper()
		await(t, "the receiver has "+want, func() string {
			if got := told(); got != want {
				return "it has " + got
			}
			return ""
		})
	}
	servers := []*server{}
	for i := range 2 {
		servers = append(servers, startIn(t, filepath.Join(dir, fmt.Sprint(i)), "--store", c.Address("faults"), "--checks", door.Checks))
	}
	sent := uint64(0)
	send := func(s *server, requests int) {
		t.Helper()
		snd := sender.HTTP("http://"+s.OTLPHTTP+"/v1/traces", "")
		defer snd.Close()
		for range requests {
			if err := snd.Send(t.Context(), crashPayload(t, "shop", 10, 3)); err != nil {
				t.Fatal(err)
			}
			sent += 10
		}
	}
	counts := func(s *server) {
		t.Helper()
		await(t, fmt.Sprint(sent, " spans are stored"), func() string {
			if got := s.count("span_duration_seconds", `{service="shop"}`); got != sent {
				return fmt.Sprint(got)
			}
			return ""
		})
	}
	// guard returns the server that guards the checks, as one of them sees it, and another.
	guard := func(seenBy *server) (guards, other *server) {
		t.Helper()
		await(t, "a server guards", func() string {
			r := get[api.ClusterResponse](seenBy, "/api/v1/cluster", nil)
			for _, m := range r.Servers {
				if !m.Alive || !slices.Contains(m.Works, "checks") {
					continue
				}
				guards, other = seenBy, servers[0]
				if other == seenBy {
					other = servers[1]
				}
				if m.Name != r.Server {
					guards, other = other, guards
				}
				return ""
			}
			return fmt.Sprintf("nobody: %+v", r.Servers)
		})
		return guards, other
	}
	frozen, other := guard(servers[0])
	send(frozen, 20)
	send(other, 20)
	await(t, "the check is known to be OK", func() string {
		if state := check(t, other, "door").State; state != "OK" {
			return state
		}
		return ""
	})

	signal := func(s *server, sig syscall.Signal) {
		t.Helper()
		if err := syscall.Kill(s.Pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	signal(frozen, proc.Suspend)
	t.Cleanup(func() { _ = syscall.Kill(frozen.Pid, proc.Resume) })
	if err := door.Shut(); err != nil {
		t.Fatal(err)
	}
	send(other, 20)
	tells("opened/1")
	if now, _ := guard(other); now != other {
		t.Error("the frozen server guards")
	}
	signal(frozen, proc.Resume)
	send(frozen, 20)
	if err := door.Open(); err != nil {
		t.Fatal(err)
	}
	tells("opened/1 resolved/2")
	counts(frozen)

	lost := c.Nodes[2]
	lost.Kill()
	await(t, "the page names the shard", func() string {
		r := get[api.ClusterResponse](other, "/api/v1/cluster", nil)
		for _, f := range r.Findings {
			if f.Where == lost.HTTP && f.Costs != "" && f.Next != "" {
				return ""
			}
		}
		return fmt.Sprintf("not: %+v", r.Findings)
	})
	send(frozen, 20)
	send(other, 20)
	status, _, body, err := other.fetch("/api/v1/distribution", map[string]string{"family": "span_duration_seconds", "start": "now-1h"})
	if err != nil || status == http.StatusOK || !strings.Contains(string(body), lost.HTTP) {
		t.Errorf("without a shard a question is answered by %d %s, %v; want an error that names %s", status, body, err, lost.HTTP)
	}
	disk, err := c.MoveToSmallDisk(lost, 100)
	if err != nil && !errors.Is(err, os.ErrPermission) {
		t.Fatal(err)
	}
	if err := c.Restart(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	counts(other)
	counts(frozen)
	if disk == "" {
		t.Log("no disk is full: this process may not mount a small one")
	} else {
		free, err := program.FillDisk(disk, 0)
		if err != nil {
			t.Fatal(err)
		}
		failed := other.metric("tailscope_store_statements_failed_total")
		for range 10 {
			send(frozen, 5)
			send(other, 5)
			pause(t, 300*time.Millisecond)
		}
		if n := other.metric("tailscope_store_statements_failed_total"); n == failed {
			t.Error("no statement failed while the disk was full")
		}
		if err := free(); err != nil {
			t.Fatal(err)
		}
		counts(other)
		counts(frozen)
	}
	if got := told(); got != "opened/1 resolved/2" {
		t.Errorf("the receiver has %s", got)
	}
}
