package httpapi

import (
	"encoding/json"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
	"tailscope/internal/verdicts"
)

// A mark is answered with its verdict, all of it where one mark is asked for,
// and as the last change of its services.
func TestVerdicts(t *testing.T) {
	st := filled(t, storetest.NewTwin())
	clock := now.Add(-time.Minute)
	judge := verdicts.New(verdicts.Options{Store: st, Now: func() time.Time { return clock }})
	srv := serve(t, Options{Store: st, Verdicts: judge})
	for _, m := range []store.Mark{
		{ID: "1", Time: now.Add(-40 * time.Minute), Name: "one", Service: "checkout"},
		{ID: "2", Time: now.Add(-30 * time.Minute), Name: "every one"},
		{ID: "3", Time: now.Add(-time.Minute), Name: "fresh", Service: "checkout"},
		{ID: "4", Time: now.Add(time.Hour), Name: "planned", Service: "checkout"},
	} {
		if err := st.PutMark(t.Context(), m); err != nil {
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
	states := map[string]string{}
	for _, m := range list.Marks {
		states[m.Name] = m.Verdict.State
		for _, s := range m.Verdict.Services {
			if len(s.Measures) > 0 {
				t.Errorf("the list holds the figures of %s", m.Name)
			}
		}
	}
	if states["one"] != verdicts.Final || states["every one"] != verdicts.Early || states["fresh"] != verdicts.Waiting || states["planned"] != verdicts.Waiting {
		t.Errorf("states %v", states)
	}

	var one api.Mark
	ask("/api/v1/marks/1", &one)
	if v := one.Verdict; v == nil || len(v.Services) != 1 || len(v.Services[0].Measures) != 4 || v.Sentence == "" || v.Verdict == "" {
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
