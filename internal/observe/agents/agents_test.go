package agents

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/packed"
	"tailscope/internal/store/storetest"
)

func about(incarnation string, earlier ...string) string {
	return aboutFirst(9, incarnation, earlier...)
}

// aboutFirst is about for an agent that had put so many generations when it started.
func aboutFirst(first uint64, incarnation string, earlier ...string) string {
	b, err := json.Marshal(packed.Agent{Name: "edge", Writer: "agent-0123456789abcdef", Incarnation: incarnation, Earlier: earlier, First: first})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func frame(t *testing.T, generation uint64) (f []byte) {
	t.Helper()
	return frameAt(t, generation, 1_900_000_000)
}

func frameAt(t *testing.T, generation uint64, slot int64) (f []byte) {
	t.Helper()
	e, err := packed.NewEncoder(0)
	if err == nil {
		err = e.Batch(&store.Batch{Writer: "agent-0123456789abcdef", Generation: generation, Resolution: series.Base,
			Series: []series.Series{storetest.Span(series.Full, "service", "shop")},
			Points: []store.Point{{Slot: slot, Data: storetest.Dist(0.1)}}}, func(b []byte) error { f = b; return nil })
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestReceive(t *testing.T) {
	st := storetest.NewTwin()
	now := time.Unix(1_900_000_000, 0)
	r := New(Options{Store: st, Own: "fedcba9876543210", Now: func() time.Time { return now }})
	yes, no := func(int) bool { return true }, func(int) bool { return false }
	changed := frame(t, 1)
	changed[len(changed)-1] ^= 1
	newer := frame(t, 1)
	newer[4] = 2
	own := strings.Replace(about("a"), "0123456789abcdef", "fedcba9876543210", 1)
	for i, c := range []struct {
		about   string
		frame   []byte
		reserve func(int) bool
		code    int
		want    string
	}{
		{"", frame(t, 1), yes, 400, "this address is for tailscope agent"},
		{`{"name":"x"}`, nil, yes, 400, "no writer"},
		{own, nil, yes, 409, "--data"},
		{about("a"), []byte("GET"), yes, 400, "corrupt frame"},
		{about("a"), changed, yes, 400, "checksum"},
		{about("a"), newer, yes, 415, "unknown version of the packed form 2; this server knows version 1: update the server"},
		{about("a"), frameAt(t, 1, 1_900_000_610), yes, 400, "it has points at 2030-03-17T17:56:50Z, and it is 2030-03-17T17:46:40Z: more than 10m0s ahead"},
		{about("a"), frame(t, 1), no, 429, "it is sent again"},
		{about("a"), nil, yes, 200, `"stored":0`},
		{about("a"), frame(t, 1), yes, 200, fmt.Sprintf(`"stored":%d`, 4097)},
		{about("a"), frame(t, 1), yes, 200, `"duplicate":true`},
		{about("b", "a"), frame(t, 2), yes, 200, fmt.Sprintf(`"stored":%d`, 8193)},   // started again
		{about("a"), frame(t, 3), yes, 409, "another agent (edge) has the identity"}, // and the first goes on
		{about("c", "x"), nil, yes, 409, "--data"},
		// A copy of the directory from before generation 2: what it sends is not that generation.
		{aboutFirst(1, "e", "b"), frame(t, 2), yes, 409, "generation 2 of agent-0123456789abcdef is stored, and the agent had put 1"},
		{aboutFirst(1, "e", "b"), nil, yes, 409, "--data"},
		{aboutFirst(2, "b", "a"), nil, yes, 200, `"stored":8193`},
	} {
		code, answer := r.Receive(t.Context(), c.about, c.frame, c.reserve)
		if code != c.code || !strings.Contains(string(answer), c.want) {
			t.Errorf("case %d: %d %s, want %d %s", i, code, answer, c.code, c.want)
		}
	}
	// A store that lost the agent's last record, or an agent that was started very often: once
	// the other is not heard, what is new is taken, and nothing else.
	now = now.Add(11 * time.Minute)
	for _, c := range []struct {
		generation uint64
		code       int
	}{{2, 409}, {4, 200}, {5, 200}} {
		if code, answer := r.Receive(t.Context(), about("d", "x"), frame(t, c.generation), yes); code != c.code {
			t.Errorf("generation %d of another: %d %s", c.generation, code, answer)
		}
	}
	list, totals := r.Agents(), r.Totals()
	if len(list) != 1 || list[0].Stored != 5 || list[0].Refused != 5 || totals.Duplicates != 1 || totals.Points != 4 || totals.Identities != 6 || totals.Versions != 1 || totals.Malformed != 5 {
		t.Errorf("%+v, %+v", list, totals)
	}
	res, err := st.Query(t.Context(), store.Query{Family: series.SpanDuration, Start: 1_899_999_000, End: 1_900_001_000, Schema: 5})
	if err != nil || res.Groups[0].Points[0].Hist.Count != 4 {
		t.Errorf("stored %v, %v", res, err)
	}
}
