package httpapi

import (
	"net/url"
	"strings"
	"testing"
)

// badChecks are requests that are refused whether there are checks or not.
var badChecks = []struct {
	method, path, body string
	status             int
	field, words       string
}{
	{"GET", "/checks?state=OK&stat=x", "", 400, "stat", `did you mean "state"?`},
	{"GET", "/checks?match={x", "", 400, "match", "is not a selection"},
	{"GET", "/checks?limit=-1", "", 400, "limit", "not positive"},
	{"GET", "/checks?offset=-1", "", 400, "offset", "below 0"},
	{"GET", "/check", "", 400, "id", "no check is named"},
	{"POST", "/checks", "", 405, "", "takes GET, not POST"},
	{"POST", "/check/run", "", 400, "id", "percent-encoded"},
	{"GET", "/check/run?id=a", "", 405, "", "takes POST, not GET"},
	{"POST", "/check/acknowledge?id=a", "", 400, "body", "is not JSON"},
	{"POST", "/check/acknowledge?id=a", `{"user":" "}`, 400, "user", "nobody takes care"},
	{"POST", "/check/acknowledge?id=a", `{"user":"ann","coment":"x"}`, 400, "coment", `did you mean "comment"?`},
	{"POST", "/check/acknowledge?id=a", `{"user":"ann","until":1}`, 400, "until", "not in the future"},
	{"POST", "/check/acknowledge?id=a", `{"user":"ann","until":-1}`, 400, "until", "Unix seconds"},
	{"POST", "/check/acknowledge?id=a", `{"user":"ann","time":9}`, 400, "time", "leave it out"},
	{"POST", "/check/acknowledge?id=a", `{"user":"ann","comment":"` + strings.Repeat("x", 5000) + `"}`, 400, "comment", "longer than 4096"},
	{"POST", "/check/acknowledge", `{"user":"ann"}`, 400, "id", "no check is named"},
	{"DELETE", "/check/acknowledge", "", 400, "id", "no check is named"},
	{"POST", "/checks/evaluate", `{}`, 400, "expression", "there is no expression"},
	{"POST", "/checks/evaluate", `{"expression":7}`, 400, "expression", "is a number"},
	{"POST", "/checks/evaluate", `{"expression":"1","command":["rm"]}`, 400, "command", "has no"},
	{"POST", "/checks/evaluate", `{"expression":"1","start":20,"end":10}`, 400, "end", "not after start"},
	{"POST", "/checks/evaluate", `{"expression":"1","at":1e12}`, 400, "at", "Unix seconds"},
	{"POST", "/checks/evaluate", `{"expression":"1","step":-1}`, 400, "step", "not a length of time"},
	{"POST", "/checks/evaluate", `{"expression":"1","tolerance":1e10}`, 400, "tolerance", "not a length of time"},
	{"POST", "/checks/evaluate", `{"expression":"` + strings.Repeat("1", 17<<10) + `"}`, 400, "expression", "longer than"},
	{"POST", "/checks/backtest", `{}`, 400, "check", "neither a check nor a value"},
	{"POST", "/checks/backtest", `{"check":"a","value":{"command":["id"]}}`, 400, "value", "is a object"},
	{"POST", "/checks/backtest", `{"check":"a","sql":{"query":"SELECT 1"}}`, 400, "sql", "has no"},
	{"POST", "/checks/backtest", `{"check":"a","every":-3}`, 400, "every", "not a length of time"},
	{"POST", "/checks/backtest", `{"check":"a","start":5,"end":5}`, 400, "end", "not after start"},
	{"GET", "/incidents?kind=mark", "", 400, "kind", "write check or marked"},
	{"GET", "/incidents?start=now&end=now-1h", "", 400, "end", "not after start"},
	{"GET", "/incidents?open=perhaps", "", 400, "open", "neither true nor false"},
	{"POST", "/incidents", `{"start":1,"end":2}`, 400, "name", "needs a name"},
	{"POST", "/incidents", `{"name":"x","end":2}`, 400, "start", "a start and an end"},
	{"POST", "/incidents", `{"name":"x","start":2,"end":2}`, 400, "end", "not after start"},
	{"POST", "/maintenance", `{"name":"x"}`, 400, "end", "needs an end"},
	{"POST", "/maintenance", `{"end":4e9}`, 400, "name", "needs a name"},
	{"POST", "/maintenance", `{"name":"x","end":4e9,"match":"{"}`, 400, "match", "is not a selection"},
	{"POST", "/maintenance", `{"name":"x","start":1,"end":2}`, 400, "end", "ends before now"},
	{"POST", "/maintenance", `{"name":"x","end":4e9,"id":"a"}`, 400, "id", "leave it out"},
	{"POST", "/maintenance", `{"name":"x","end":4e9,"when":"daily"}`, 400, "when", "files of checks"},
}

func TestChecksRefuse(t *testing.T) {
	srv := shop(t, Options{})
	for _, c := range badChecks {
		status, body := send(t, srv, c.method, "/api/v1"+strings.ReplaceAll(c.path, "{", "%7B"), c.body)
		wantAnswer(t, c.method+" "+c.path+" "+c.body[:min(len(c.body), 60)], status, body, c.status, c.field, c.words)
	}
}

// A server without checks shows none, and tells who names one how to have them.
func TestNoChecks(t *testing.T) {
	srv := shop(t, Options{})
	id := "?id=" + url.QueryEscape(`orders{operation="GET /a"}`)
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/check" + id, ""},
		{"POST", "/check/run" + id, ""},
		{"POST", "/check/acknowledge" + id, `{"user":"ann"}`},
		{"DELETE", "/check/acknowledge" + id + "&user=ann", ""},
		{"POST", "/checks/evaluate", `{"expression":"1"}`},
		{"POST", "/checks/backtest", `{"check":"a"}`},
		{"POST", "/incidents", `{"name":"a","start":1,"end":2}`},
		{"DELETE", "/incidents/7", ""},
		{"POST", "/maintenance", `{"name":"a","end":4e9}`},
		{"DELETE", "/maintenance/7", ""},
	} {
		status, body := send(t, srv, c.method, "/api/v1"+c.path, c.body)
		wantAnswer(t, c.method+" "+c.path, status, body, 404, "", "name files of them under checks:")
	}
	for path, want := range map[string]string{
		"/checks":      `"checks":[],"total":0`,
		"/incidents":   `"incidents":[]`,
		"/maintenance": `{"windows":[]}`,
	} {
		if status, body := fetch(t, srv, "/api/v1"+path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want %s in it", path, status, body, want)
		}
	}
}
