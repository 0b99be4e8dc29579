package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/client"
)

// watching plays a watch of answers, one a look, the last one for ever: a
// verdict, or an error. It returns how the watch went.
func watching(t *testing.T, flags *compareFlags, answers ...any) (last *api.CompareResponse, said string, looks int, err error) {
	t.Helper()
	now := time.Unix(1778317200, 0).UTC()
	var out bytes.Buffer
	w := watch{
		every: 10 * time.Second, until: now.Add(10 * time.Minute), say: &out, done: flags.complete,
		now:  func() time.Time { return now },
		wait: func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil },
		ask: func(context.Context) (*api.CompareResponse, error) {
			answer := answers[min(looks, len(answers)-1)]
			looks++
			if err, ok := answer.(error); ok {
				return nil, err
			}
			r := compareFixture()
			r.Verdict, r.Sentence = api.Verdict(answer.(string)), "p99 "+answer.(string)
			r.B.Start, r.B.End = 1778317200, 1778317200+int64(looks)*10
			return r, nil
		},
	}
	last, err = w.run(t.Context())
	return last, out.String(), looks, err
}

func TestWatch(t *testing.T) {
	early := &client.Error{Status: 409, Code: "too_early", Message: "nothing yet"}
	away := fmt.Errorf("%w: refused", client.ErrUnreachable)
	mark := &compareFlags{question: &question{}, wanted: api.CompareRequest{Mark: "x"}}
	for name, c := range map[string]struct {
		answers []any
		verdict api.Verdict
		looks   int
		says    string // parted by bars: each line's kind
	}{
		"a regression ends it":     {[]any{early, early, "too little data", "no evidence", "no evidence", "regression", "same"}, "regression", 6, "nothing yet|too little data|no evidence"},
		"an improvement too":       {[]any{"improvement"}, "improvement", 1, ""},
		"no evidence until --for":  {[]any{"no evidence"}, "no evidence", 60, "no evidence|no evidence"}, // said again after five minutes
		"a server that comes back": {[]any{away, away, "mixed"}, "mixed", 3, "cannot reach"},
	} {
		last, said, looks, err := watching(t, mark, c.answers...)
		if err != nil || last.Verdict != c.verdict || looks != c.looks {
			t.Errorf("%s: %v, %v after %d looks, want %s after %d", name, last, err, looks, c.verdict, c.looks)
		}
		lines := strings.Split(strings.TrimSpace(said), "\n")
		for i, want := range strings.Split(c.says, "|") {
			if i >= len(lines) || !strings.Contains(lines[i], want) {
				t.Errorf("%s: said %q, want %s", name, said, c.says)
				break
			}
		}
	}
	if _, _, looks, err := watching(t, mark, away); !errors.Is(err, client.ErrUnreachable) || looks != giveUp {
		t.Errorf("without a server: %v after %d looks", err, looks)
	}
	if _, _, looks, err := watching(t, mark, &client.Error{Status: 404, Code: "not_found"}); err == nil || looks != 1 {
		t.Errorf("without the mark: %v after %d looks", err, looks)
	}
	var e ended
	if _, _, _, err := watching(t, mark, early); !errors.As(err, &e) || e.code != exitTooLittle {
		t.Errorf("nothing ever came: %v", err)
	}
	// A mark's window of two minutes is full after twelve slots of 10 s.
	mark.wanted.Window = 2 * time.Minute
	if last, said, looks, err := watching(t, mark, "no evidence"); err != nil || looks != 12 || last.Verdict != "no evidence" || !strings.Contains(said, "no more to come") {
		t.Errorf("%d looks, %v: %s", looks, err, said)
	}
}

// What was before a mark grows no more: with too little of it there is nothing
// to wait for.
func TestWatchWithoutBefore(t *testing.T) {
	f := &compareFlags{question: &question{}, wanted: api.CompareRequest{Mark: "x"}}
	r := compareFixture()
	r.B.End = r.B.Start + 60
	if f.complete(r, time.Time{}) {
		t.Error("complete after a minute of an hour")
	}
	if r.A.Slots = 19; !f.complete(r, time.Time{}) {
		t.Error("waits for what was before")
	}
}

// From the command line: the beginning stays where it is, and every look is one
// of a comparison that is watched.
func TestWatchAsks(t *testing.T) {
	r := compareFixture()
	r.Verdict = "improvement"
	srv, asked := answering(t, r)
	_, stderr, code := run(t, "compare", "--label", "version", "--a", "1.0", "--b", "1.1", "--since", "10m", "--watch", "--set", "every=1s", "--for", "5s", "--server", srv.URL)
	got := unescape(strings.Join(*asked, "; "))
	if code != 0 || stderr != "" || !strings.Contains(got, "end=now&label=version&limit=10&live=true&start=1") || len(*asked) != 1 {
		t.Errorf("exit code %d, %s, asked %s", code, stderr, got)
	}
}

// A watch that ends soon after a mark says until when a late effect may begin.
func TestWatchSaysUntilWhen(t *testing.T) {
	for _, c := range []struct {
		ago  time.Duration
		says bool
	}{{5 * time.Minute, true}, {20 * time.Minute, false}} {
		r := compareFixture()
		r.Verdict, r.Mark.Time = "improvement", api.UnixTime(time.Now().Add(-c.ago))
		srv, _ := answering(t, r)
		_, stderr, code := run(t, "compare", "--mark", "5f1c0de", "--watch", "--for", "5s", "--server", srv.URL)
		if says := strings.Contains(stderr, "may be a late effect of the mark: tailscope mark show 5f1c0de"); code != 0 || says != c.says {
			t.Errorf("%s after the mark: exit code %d, %s", c.ago, code, stderr)
		}
	}
}
