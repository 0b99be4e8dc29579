package httpapi

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/judge/marks"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// A mark is answered with its verdict, all of it where one mark is asked for,
// and as the last change of its services.
func TestVerdicts(t *testing.T) {
	st := filled(t, storetest.NewTwin())
	clock := now.Add(-time.Minute)
	judge := marks.New(marks.Options{Around: marks.Around{Store: st}, Now: func() time.Time { return clock }})
	srv := serve(t, Options{Store: st, Verdicts: judge})
	for _, m := range []store.Mark{
		{ID: "1", Time: now.Add(-40 * time.Minute), Name: "one", Service: "checkout"},
		{ID: "2", Time: now.Add(-30 * time.Minute), Name: "every one"},
		{ID: "3", Time: now.Add(-time.Minute), Name: "fresh", Service: "checkout"},
		{ID: "4", Time: now.Add(time.Hour), Name: "planned", Service: "checkout"},
	} {
		if err := store.PutMark(t.Context(), st, m); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // seen, and then judged
		if err := judge.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock = now
	}
	ask := func(path string, into any, params ...string) {
		t.Helper()
		status, got := fetch(t, srv, path, params...)
		if err := json.Unmarshal([]byte(got), into); err != nil || status != 200 {
			t.Fatalf("%s: status %d, %v, %s", path, status, err, got)
		}
	}

	var list api.MarksResponse
	ask("/api/v1/marks", &list)
	states := map[string]api.MarkState{}
	for _, m := range list.Marks {
		states[m.Name] = m.Verdict.State
		for _, s := range m.Verdict.Services {
			if len(s.Measures) > 0 {
				t.Errorf("the list holds the figures of %s", m.Name)
			}
		}
	}
	if states["one"] != marks.Final || states["every one"] != marks.Early || states["fresh"] != marks.Waiting || states["planned"] != marks.Waiting {
		t.Errorf("states %v", states)
	}

	var one api.Mark
	ask("/api/v1/marks/1", &one)
	if v := one.Verdict; v == nil || len(v.Services) != 1 || len(v.Services[0].Measures) != 6 || v.Sentence == "" || v.Verdict == "" {
		t.Errorf("one mark: %+v", one.Verdict)
	}
	ask("/api/v1/marks", &list, "service", "batch")
	if len(list.Marks) != 1 || len(list.Marks[0].Verdict.Services) > 1 {
		t.Errorf("marks of batch: %+v", list.Marks)
	}

	var services api.ServicesResponse
	ask("/api/v1/services", &services, "start", "now-1h", "end", "now")
	latest := map[string]string{}
	for _, s := range services.Services {
		if s.LatestMark != nil && s.LatestMark.Verdict != nil {
			latest[s.Name] = s.LatestMark.Name
		}
	}
	if latest["checkout"] != "fresh" || latest["batch"] != "every one" {
		t.Errorf("latest marks %v", latest)
	}
}

// The last change of a service is where something was found, not what came after.
func TestLatestMark(t *testing.T) {
	st := filled(t, storetest.NewTwin())
	finding := func(verdict string) string {
		return `"verdict":{"state":"final","verdict":"` + verdict + `","services":[{"service":"checkout","verdict":"` + verdict + `"}]}`
	}
	for _, m := range []struct {
		id, service, verdict string
		ago                  time.Duration
	}{
		{"old", "checkout", "regression", 20 * time.Hour},
		{"own", "checkout", "regression", 50 * time.Minute},
		{"same", "checkout", "same", 40 * time.Minute},
		{"batch's", "batch", "no evidence", 35 * time.Minute},
		{"common", "", "no evidence", 30 * time.Minute},
		{"common found", "", "improvement", 20 * time.Minute},
		{"last", "", "no evidence", 10 * time.Minute},
	} {
		if err := store.PutMark(t.Context(), st, store.Mark{ID: m.id, Time: now.Add(-m.ago), Name: m.id, Service: m.service}); err != nil {
			t.Fatal(err)
		}
		record := store.RecordWrite{Key: m.id, Value: []byte(`{"mark":"` + m.id + `",` + finding(m.verdict) + `}`)}
		if _, err := st.PutRecords(t.Context(), "verdicts", record); err != nil {
			t.Fatal(err)
		}
	}
	judge := marks.New(marks.Options{Around: marks.Around{Store: st}, Now: func() time.Time { return now }})
	if err := judge.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv := serve(t, Options{Store: st, Verdicts: judge})
	for _, c := range []struct {
		start, end, service, want string
	}{
		{"now-1h", "now", "checkout", "common found"},
		{"now-1h", "now-25m", "checkout", "own"},     // although two came after it
		{"now-45m", "now-25m", "checkout", "same"},   // its own, not the later one of every service
		{"now-32m", "now-25m", "checkout", "common"}, // none of its own in the range
		{"now-1h", "now", "batch", "batch's"},
		{"now-15m", "now", "batch", "last"},
		{"now-5m", "now", "batch", "last"}, // before the range
	} {
		var got api.ServicesResponse
		status, text := fetch(t, srv, "/api/v1/services", "start", c.start, "end", c.end)
		if err := json.Unmarshal([]byte(text), &got); err != nil || status != 200 {
			t.Fatalf("status %d, %v, %s", status, err, text)
		}
		i := slices.IndexFunc(got.Services, func(s api.Service) bool { return s.Name == c.service })
		if i < 0 {
			t.Fatalf("no %s from %s to %s", c.service, c.start, c.end)
		}
		if m := got.Services[i].LatestMark; m == nil || m.Name != c.want {
			t.Errorf("%s from %s to %s: got %+v, want %s", c.service, c.start, c.end, m, c.want)
		}
	}
}
