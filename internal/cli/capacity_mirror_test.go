package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/client"
)

// What a search on live traffic cannot do is said before a port is opened.
func TestCapacityMirrorRefuses(t *testing.T) {
	pool := "http://127.0.0.1:2,http://127.0.0.1:3"
	const closed = 1 // where nothing listens
	for args, want := range map[string]string{
		"":                                    "--objective is missing",
		"--objective p99<x":                   `objective "p99<x"`,
		"--objective p99<1s --copies 3":       `--copies "3" is not a range`,
		"--objective p99<1s --copies 8..2":    `--copies "8..2" is not a range`,
		"--objective p99<1s --servers 1..2.5": `--servers "1..2.5" is not a range`,
		"--objective p99<1s --copies 1..2 --servers 1..2":                                    "--copies and --servers: one of them",
		"--objective p99<1s --precision much":                                                `--precision "much" is not a share`,
		"--objective p99<1s":                                                                 "--primary: ",
		"--objective p99<1s --set mirror.tcp=true":                                           "mirror.tcp: in bytes there are no requests",
		"--objective p99<1s --session x --primary http://127.0.0.1:1 --set mirror.share=0.5": "--primary, mirror.share: a session that runs already has its settings",
		"--objective p99<1s --session x --server http://127.0.0.1:1":                         "hint: --server takes the address of the server",
		"--objective p99<1s --within 1s":                                                     "less than one step",
		"--objective p99<1s --set watch_port=0":                                              "--set watch_port 0 cannot be",
		"--objective p99<1s --set watch_port=" + strconv.Itoa(closed):                        fmt.Sprintf("nothing listens on port %d\nhint: start it first", closed),
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), append([]string{"capacity", "mirror"}, strings.Fields(args)...), nil, &out, &errs)
		if code == exitOK || !strings.Contains(errs.String(), want) || out.Len() > 0 {
			t.Errorf("%s\nends with %d, want %q in\n%s%s", args, code, want, errs.String(), out.String())
		}
	}
	// Of a session that stands: its pool, its candidates.
	primary := backend(t, "primary")
	for args, want := range map[string]string{
		"--candidate " + pool + " --servers 1..11":                          "the pool of candidate has 2 servers, not 11",
		"--candidate " + pool + " --copies 1..300":                          "300 copies of each request cannot be sent",
		"--candidate a=http://127.0.0.1:2 --candidate b=http://127.0.0.1:3": "name one of a, b",
		"--candidate " + pool + " --of other":                               `there is no shadow "other"`,
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), append([]string{"capacity", "mirror", "--objective", "p99 < 1s", "--listen", "127.0.0.1:0", "--primary", primary}, strings.Fields(args)...), nil, &out, &errs)
		if code == exitOK || !strings.Contains(errs.String(), want) {
			t.Errorf("%s\nends with %d, want %q in\n%s", args, code, want, errs.String())
		}
	}
}

// A search that is interrupted ends in order: with a report, and the session with it.
func TestCapacityMirrorInterrupted(t *testing.T) {
	t.Parallel()
	srv := far(t, "127.0.0.1:0", "127.0.0.1:0")
	file := filepath.Join(t.TempDir(), "r.json")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out, errs := &output{new: make(chan struct{}, 1)}, &output{new: make(chan struct{}, 1)}
	code := make(chan int, 1)
	go func() {
		code <- Run(ctx, []string{"capacity", "mirror", "--objective", "p99 < 10s", "--copies", "2..4", "--listen", "127.0.0.1:0", "--primary", backend(t, "primary"),
			"--candidate", backend(t, "candidate"), "--to", "http://" + srv.Addr(), "--set", "mirror.set_header=Authorization: Bearer abc", "-o", file, "--set", "watch_pid=" + strconv.Itoa(os.Getpid())}, nil, out, errs)
	}()
	until := func(text string) {
		t.Helper()
		for deadline := time.After(20 * time.Second); !strings.Contains(errs.String(), text); {
			select {
			case <-errs.new:
			case c := <-code:
				t.Fatalf("ended with %d:\n%s", c, errs.String())
			case <-deadline:
				t.Fatalf("want %q in\n%s", text, errs.String())
			}
		}
	}
	until("waiting for the first live request")
	url := "http://" + between(errs.String(), " on ", "\n")
	clients := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c := &http.Client{Transport: &http.Transport{}}
		defer c.CloseIdleConnections()
		for {
			select {
			case <-clients:
				return
			case <-time.After(10 * time.Millisecond):
			}
			if r, err := c.Get(url); err == nil {
				r.Body.Close()
			}
		}
	}()
	c := &client.Client{Address: srv.Addr()}
	session := func() *api.MirrorTarget {
		r, err := c.Sessions(t.Context(), api.SessionsRequest{Kind: "mirror"})
		if err != nil || len(r.Sessions) == 0 || r.Sessions[0].Mirror == nil {
			return &api.MirrorTarget{}
		}
		return &r.Sessions[0].Mirror.Shadows[0]
	}
	for deadline := time.Now().Add(20 * time.Second); session().Amplify != 2; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%v copies are sent, want 2:\n%s", session().Amplify, errs.String())
		}
	}
	interrupt()
	close(clients)
	<-ended
	select {
	case c := <-code:
		if c != exitFailed {
			t.Errorf("ended with %d", c)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("does not end:\n%s", errs.String())
	}
	var got api.Capacity
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &got)
	}
	if err != nil || !got.Restored || got.Failed == "" || got.Mode != "mirror" || fmt.Sprint(got.End) == "NaN" {
		t.Errorf("the report: %v, restored %v, failed %q, mode %q", err, got.Restored, got.Failed, got.Mode)
	}
	if again := " --set watch_pid=" + strconv.Itoa(os.Getpid()) + " "; !strings.Contains(got.Command+" ", again) {
		t.Errorf("again: %s, without %s", got.Command, again)
	}
	if strings.Contains(got.Command, "abc") || !strings.Contains(got.Command, "--set 'mirror.set_header=Authorization: …'") {
		t.Errorf("again: %s", got.Command)
	}
	if x := session(); x.Amplify != 1 {
		t.Errorf("%v copies after the end", x.Amplify)
	}
	r, err := c.Sessions(t.Context(), api.SessionsRequest{Kind: "capacity"})
	if err != nil || len(r.Sessions) != 1 || r.Sessions[0].State != "ended" {
		t.Errorf("the log book: %+v, %v", r, err)
	}
}
