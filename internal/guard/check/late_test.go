package check

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"
)

// While searches fall behind there is one warning in ten minutes, however many incidents ask, and
// one line once they have caught up.
func TestLateStoriesAreLoggedOnce(t *testing.T) {
	var logged bytes.Buffer
	now := time.Date(2026, 5, 12, 10, 0, 0, 0, time.UTC)
	late := true
	e := &Engine{o: Options{
		Now:    func() time.Time { return now },
		Logger: slog.New(slog.NewTextHandler(&logged, nil)),
		Story: func(context.Context, string, string, time.Time, time.Time) (Story, error) {
			if late {
				return Story{}, context.DeadlineExceeded
			}
			return Story{}, nil
		},
	}}
	lines := func() string {
		defer logged.Reset()
		return strings.Join(regexp.MustCompile(`level=\w+|missed=\d+|behind=\S+`).FindAllString(logged.String(), -1), " ")
	}
	for _, x := range []struct {
		name    string
		minutes int
		late    bool
		want    string
	}{
		{"behind", 10, true, "level=WARN missed=1"},
		{"behind for longer", 10, true, "level=WARN missed=60"},
		{"a lucky minute", 1, false, ""},
		{"behind again", 1, true, "level=WARN missed=60"},
		{"caught up", 30, false, "level=INFO behind=21m"},
		{"behind later", 2, true, "level=WARN missed=6"},
		{"and not again so soon", 5, false, "level=INFO"},
		{"behind again too soon for a warning", 2, true, ""},
		{"nor is it said that this is over", 5, false, ""},
	} {
		late = x.late
		for range x.minutes {
			for i := range 6 { // incidents
				e.story(t.Context(), map[subject]Story{}, "incident", subject{service: strings.Repeat("s", i+1)})
			}
			now = now.Add(time.Minute)
		}
		if got := lines(); !strings.HasPrefix(got, x.want) || x.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
		}
	}
}
