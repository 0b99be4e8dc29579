package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/cluster"
	"tailscope/internal/judge"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// An incident is of the newest event that made requests worse, and lasts when it opens: by the
// change that leads that, at its moment.
func TestStoryOfAnIncident(t *testing.T) {
	change := func(id string, at api.Float, verdict api.Verdict) api.Change {
		return api.Change{ID: id, Time: at, Low: at - 10, High: at + 10, Verdict: verdict, Sentence: id + " is slow"}
	}
	under := change("the operation", 90, judge.Regression)
	under.Under = "the service"
	spike := change("the spike", 200, judge.Regression)
	spike.Shape = &api.Shape{Kind: judge.Spike, End: 220}
	for _, c := range []struct {
		of            []api.Change
		opened, until int64
		want          string
	}{
		{nil, 300, 300, ""},
		{[]api.Change{change("the service", 100, judge.Regression)}, 300, 300, "The service is slow 100"},
		{[]api.Change{under, change("the service", 100, judge.Regression)}, 300, 300, "The service is slow 100"},
		{[]api.Change{change("the service", 100, judge.Regression), change("mended", 200, judge.Improvement)}, 300, 300, ""},
		{[]api.Change{change("the service", 100, judge.Regression), spike}, 300, 300, "The service is slow 100"},
		{[]api.Change{change("the service", 100, judge.Regression), spike}, 210, 210, "The spike is slow 200"},
		{[]api.Change{change("the service", 100, judge.Regression), change("a release", 400, judge.Mixed)}, 300, 300, "The service is slow 100"},
		{[]api.Change{change("the service", 100, judge.Regression), change("a release", 400, judge.Mixed)}, 300, 500, "A release is slow 400"},
	} {
		got := ""
		if s := worsened(c.of, time.Unix(c.opened, 0), time.Unix(c.until, 0)); s.Sentence != "" {
			got = fmt.Sprint(s.Sentence, " ", s.Since.Unix())
		}
		if got != c.want {
			t.Errorf("opened at %d, until %d: %q, want %q of %+v", c.opened, c.until, got, c.want, c.of)
		}
	}
}

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

// A server without checks hands a verdict to the servers of its store that have some, and
// writes nothing where there are none.
func TestVerdictWithoutChecks(t *testing.T) {
	twin := storetest.NewTwin()
	join := func(writer string, work ...string) *cluster.Cluster {
		t.Helper()
		c, err := cluster.Join(t.Context(), cluster.Options{Records: twin, Writer: writer, Work: work})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	alone := &Server{store: twin, now: time.Now}
	judges := &Server{store: twin, now: time.Now, cluster: join("judges", workVerdicts)}
	send := func(s *Server) (queued []string) {
		t.Helper()
		if err := s.sendVerdict(t.Context(), store.Mark{ID: "m", Name: "deploy"}, &api.MarkVerdict{Verdict: judge.Regression, Sentence: "p99 is slower"}); err != nil {
			t.Fatal(err)
		}
		if err := twin.ListRecords(t.Context(), "checks", "", func(x store.Record) error {
			queued = append(queued, string(x.Value))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return queued
	}
	for name, s := range map[string]*Server{"alone": alone, "beside none with checks": judges} {
		if queued := send(s); len(queued) > 0 {
			t.Errorf("%s it has written %q", name, queued)
		}
	}
	join("guards", workChecks)
	if err := judges.cluster.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if queued := send(judges); len(queued) != 1 || !strings.Contains(queued[0], "p99 is slower") || !strings.Contains(queued[0], `"/marks/m"`) {
		t.Errorf("beside one with checks it has written %q, want the verdict", queued)
	}
}
