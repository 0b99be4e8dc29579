package httpapi

import (
	"cmp"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/judge/legs/legstest"
	"tailscope/internal/query/querytest"
	"tailscope/internal/store/storetest"
)

const sessionReport = `{"kind":"mirror","name":"new cache","service":"checkout","start":1778317000,"mirror":{"mode":"http","listen":":8080",
	"primary":{"name":"primary","role":"primary","servers":[{"url":"http://a"}],"using":1,"amplify":1,"diverged":null},
	"shadows":[{"name":"candidate","role":"candidate","servers":[{"url":"http://b"}],"using":1,"amplify":1,"diverged":null}],
	"requests":7,"skipped":{},"failed":{},"applied":APPLIED,"settings":{"share":1,"paused":false}}}`

// A session is reported, listed, changed, judged and forgotten.
func TestExperiments(t *testing.T) {
	if querytest.Epoch > 1778317000 {
		t.Fatal("the session begins before the data")
	}
	srv := shop(t, Options{})
	report := func(applied string) api.SessionReply {
		t.Helper()
		code, body := send(t, srv, "PUT", "/api/v1/sessions/x-1", strings.ReplaceAll(sessionReport, "APPLIED", applied))
		if code != 200 {
			t.Fatal(body)
		}
		return decodeJSON[api.SessionReply](t, body)
	}
	if r := report("0"); r.Change != nil {
		t.Errorf("changes at the beginning: %+v", r)
	}
	_, body := fetch(t, srv, "/api/v1/sessions?state=running")
	if list := decodeJSON[api.SessionsResponse](t, body); len(list.Sessions) != 1 || list.Sessions[0].ID != "x-1" || list.Sessions[0].Mirror.Requests != 7 {
		t.Errorf("listed: %s", body)
	}
	code, body := send(t, srv, "PATCH", "/api/v1/sessions/x-1", `{"share":0.5,"shadows":{"candidate":{"using":0}}}`)
	if m := decodeJSON[api.MirrorChange](t, body); code != 200 || m.Number != 1 || *m.Share != 0.5 {
		t.Errorf("%d %s", code, body)
	}
	if r := report("0"); r.Change == nil || r.Change.Number != 1 || *r.Change.Shadows["candidate"].Using != 0 {
		t.Errorf("changes: %+v", r)
	}
	if _, body = fetch(t, srv, "/api/v1/sessions/x-1"); !strings.Contains(body, `"change":{"number":1,"share":0.5`) {
		t.Errorf("one: %s", body)
	}
	if r := report("1"); r.Change != nil {
		t.Errorf("after they were applied: %+v", r)
	}
	code, body = fetch(t, srv, "/api/v1/sessions/x-1/verdict?measures=ratio,p99&limit=3")
	if v := decodeJSON[api.MirrorVerdictResponse](t, body); code != 200 || len(v.Candidates) != 1 || v.Candidates[0].Verdict != "too little data" || v.Candidates[0].Against != "primary" || len(v.Candidates[0].Measures) != 2 || !v.Live {
		t.Errorf("%d %s", code, body)
	}
	if code, body = send(t, srv, "DELETE", "/api/v1/sessions/x-1", ""); code != 400 {
		t.Errorf("forget one that runs: %d %s", code, body)
	}
	code, body = send(t, srv, "PUT", "/api/v1/sessions/x-1", strings.ReplaceAll(strings.Replace(sessionReport, `"mirror":{`, `"ended":true,"mirror":{`, 1), "APPLIED", "1"))
	if code != 200 {
		t.Error(body)
	}
	if code, body = send(t, srv, "DELETE", "/api/v1/sessions/x-1", ""); code != 204 {
		t.Errorf("%d %s", code, body)
	}
}

func TestExperimentErrors(t *testing.T) {
	srv := shop(t, Options{})
	whole := strings.ReplaceAll(sessionReport, "APPLIED", "0")
	if code, body := send(t, srv, "PUT", "/api/v1/sessions/x", whole); code != 200 {
		t.Fatal(body)
	}
	for _, tc := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"GET", "/api/v1/sessions?state=runing", "", 400, `did you mean \"running\"?`},
		{"GET", "/api/v1/sessions?states=ended", "", 400, `did you mean \"state\"?`},
		{"GET", "/api/v1/sessions?start=now&end=now-1h", "", 400, "end is not after start"},
		{"GET", "/api/v1/sessions/y", "", 404, "there is no session"},
		{"GET", "/api/v1/sessions/x?start=now", "", 400, "takes no parameters"},
		{"GET", "/api/v1/sessions/x/verdicts", "", 404, "there is no /api/v1/sessions/x/verdicts"},
		{"GET", "/api/v1/sessions/x/verdict?measures=p98", "", 400, `there is no measure \"p98\"`},
		{"GET", "/api/v1/sessions/x/verdict?allow=p98%3D3%25", "", 400, `"field":"allow"`},
		{"GET", "/api/v1/sessions/x/verdict?limit=-1", "", 400, `"field":"limit"`},
		{"GET", "/api/v1/sessions/y/verdict", "", 404, "there is no session"},
		{"POST", "/api/v1/sessions/x", "{}", 405, "takes DELETE or GET or PATCH or PUT, not POST"},
		{"POST", "/api/v1/sessions/x/verdict", "{}", 405, "takes GET, not POST"},
		{"PUT", "/api/v1/sessions/x", "", 400, `"field":"body"`},
		{"PUT", "/api/v1/sessions/x", "{} {}", 400, "goes on after the report"},
		{"PUT", "/api/v1/sessions/x", `{"kind":7}`, 400, `"field":"kind"`},
		{"PUT", "/api/v1/sessions/x", `{"sort":"mirror"}`, 400, `"field":"sort"`},
		{"PUT", "/api/v1/sessions/a%20b", whole, 400, "letters, digits, dots"},
		{"PUT", "/api/v1/sessions/x", strings.Replace(whole, "1778317000", "1778317001", 1), 400, "is another one"},
		{"PUT", "/api/v1/sessions/x", strings.Repeat(" ", 8<<20) + whole, 413, "larger than 8 MB"},
		{"PATCH", "/api/v1/sessions/x", strings.Repeat(" ", 1<<20) + `{"stop":true}`, 413, "larger than 1 MB"},
		{"GET", "/api/v1/sessions?limit=-1", "", 400, `"field":"limit"`},
		{"GET", "/api/v1/sessions?kind=load", "", 400, "write mirror, bench, experiment, capacity or simulation"},
		{"PATCH", "/api/v1/sessions/x", "{}", 400, "nothing is to be changed"},
		{"PATCH", "/api/v1/sessions/x", `{"share":"half"}`, 400, `"field":"share"`},
		{"PATCH", "/api/v1/sessions/x", `{"shadows":{"other":{"using":1}}}`, 400, "candidate"},
		{"PATCH", "/api/v1/sessions/y", `{"stop":true}`, 404, "there is no session"},
		{"DELETE", "/api/v1/sessions/y", "", 404, "there is no session"},
	} {
		code, body := send(t, srv, tc.method, tc.path, tc.body)
		if code != tc.code || !strings.Contains(body, tc.says) {
			t.Errorf("%s %s: %d %s", tc.method, tc.path, code, body)
		}
	}
}

// What a mirror allows is honoured by its verdict and said beside it; a question may
// allow something else. The candidate is 10 % slower than the control.
func TestMirrorAllows(t *testing.T) {
	st := storetest.NewTwin()
	s := legstest.Steady
	s.Operations, s.Slower = 0, 1.1
	s.Put(t, st, "x")
	at := time.Unix(querytest.Epoch+920, 0)
	srv := serve(t, Options{Store: st, Now: func() time.Time { return at }})
	state := legstest.State()
	for _, c := range []struct {
		own, asked string
		want       api.Verdict
		p50        api.Verdict
		says       string // of p50
	}{
		{"", "", "slower", "slower", ""},
		{"worse:5%", "", "slower", "slower", "an increase of 5 % is allowed"},
		{"worse:20%", "", "within tolerance", "within tolerance", "an increase of 20 % is allowed"},
		{"worse:20%", "worse:5%", "slower", "slower", "an increase of 5 % is allowed"},
		{"", "decrease:3%", "within tolerance", "within tolerance", "a decrease of 3 % is allowed"},
		{"", "p99=worse:20%", "slower", "slower", ""},
		{"worse:10%", "", "no evidence", "no evidence", "an increase of 10 % is allowed"},
	} {
		state.Settings.Allow = c.own
		report, err := json.Marshal(api.SessionReport{Kind: "mirror", Name: "new cache", Service: "shop", Start: api.Float(querytest.Epoch), Mirror: state})
		if err != nil {
			t.Fatal(err)
		}
		if code, body := send(t, srv, "PUT", "/api/v1/sessions/x", string(report)); code != 200 {
			t.Fatal(body)
		}
		code, body := fetch(t, srv, "/api/v1/sessions/x/verdict?measures=ratio,p50,p95&allow="+url.QueryEscape(c.asked))
		v := decodeJSON[api.MirrorVerdictResponse](t, body)
		if code != 200 || len(v.Candidates) != 1 || v.Candidates[0].Verdict != c.want || v.Allow != cmp.Or(c.asked, c.own) {
			t.Errorf("own %q, asked %q: %d %s, want %s", c.own, c.asked, code, body, c.want)
			continue
		}
		if m := v.Candidates[0].Measures[1]; m.Verdict != c.p50 || m.Allowed != c.says {
			t.Errorf("own %q, asked %q: p50 %s, %q; want %s, %q", c.own, c.asked, m.Verdict, m.Allowed, c.p50, c.says)
		}
	}
	state.Settings.Allow = "worse:much"
	report, _ := json.Marshal(api.SessionReport{Kind: "mirror", Name: "new cache", Service: "shop", Start: api.Float(querytest.Epoch), Mirror: state})
	if code, body := send(t, srv, "PUT", "/api/v1/sessions/x", string(report)); code != 400 || !strings.Contains(body, `"field":"mirror.settings.allow"`) {
		t.Errorf("%d %s", code, body)
	}
}
