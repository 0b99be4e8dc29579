package server

import (
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/client"
)

// A mark that is put is noticed by the server itself, and counted. It is first looked at by
// slots of one second.
func TestMarksAreWaitedFor(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	c := &client.Client{Address: s.Addr()}
	m, err := c.PutMark(t.Context(), api.Mark{Name: "deploy", Service: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	for s.verdicts.Stats().Waiting == 0 { // a round of the server's own may be under way
		if err := s.verdicts.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.Mark(t.Context(), m.ID)
	if err != nil || got.Verdict == nil || got.Verdict.State != "waiting" {
		t.Fatalf("%v, %+v", err, got)
	}
	if wait := time.Duration(float64(got.Verdict.Next-m.Time) * float64(time.Second)); wait < 20*time.Second || wait > 40*time.Second {
		t.Errorf("judged %s after the mark", wait)
	}
	_, text := get(t, "http://"+s.Addr()+"/metrics")
	for _, want := range []string{
		"tailscope_marks_without_final_verdict 1\n", `tailscope_mark_verdicts_total{state="final"} 0` + "\n", "tailscope_mark_verdict_failures_total 0\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %q", want)
		}
	}
}
