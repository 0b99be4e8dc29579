package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/observe/traces"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

func TestDamageAsProblem(t *testing.T) {
	ten := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		damage store.Damage
		text   string
	}{
		{store.Damage{File: "damaged/000012.sst", Reason: "checksum mismatch in block 7", Lost: "10 s slots of shop", Observations: -1}, "Lost: 10 s slots of shop. damaged/000012.sst: checksum mismatch in block 7."},
		{store.Damage{File: "damaged/generation-5.journal", Reason: "frame 3 is damaged", Lost: "3 requests", Observations: 120}, "Lost: 3 requests, 120 observations. damaged/generation-5.journal: frame 3 is damaged."},
		{store.Damage{File: "journal/generation-6.journal", Reason: "the journal is missing", Observations: 2000}, "Lost: 2000 acknowledged observations. journal/generation-6.journal: the journal is missing."},
		{store.Damage{File: "000007.log", Reason: "cut short", Observations: 0}, "No observation was lost. 000007.log: cut short."},
		{store.Damage{File: "MANIFEST-000001", Reason: "missing", Observations: -1}, "MANIFEST-000001: missing."},
	} {
		code := problemDamage
		if c.damage.Observations == 0 {
			code = problemRecovered
		}
		if p := damageProblem(c.damage); p.Text != c.text || p.Code != code || p.Next == "" || p.Summary == "" || !math.IsNaN(float64(p.From)) {
			t.Errorf("%+v, want the text %q", p, c.text)
		}
	}
	p := damageProblem(store.Damage{File: "f", Reason: "r", From: ten, To: ten.Add(time.Hour)})
	if p.From != api.Float(ten.Unix()) || p.To != api.Float(ten.Unix()+3600) {
		t.Errorf("from %v to %v", p.From, p.To)
	}
}

// A store that refuses for another reason than space is reported until it takes
// what arrives; a full disk is reported once.
func TestNotStoredAsProblem(t *testing.T) {
	var failing error
	problems := storingProblems(func() error { return failing })
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{fmt.Errorf("store generation 3: %w", store.ErrFull), ""},
		{errors.New("store generation 3: input/output error"), "Nothing new is stored: store generation 3: input/output error."},
		{fmt.Errorf("store generation 3: shard 2: ClickHouse at ch2: %w", store.ErrAway), "Nothing new is stored: store generation 3: shard 2: ClickHouse at ch2: a part of the store is away. What arrives waits in the journal and in memory, and is not shown yet; when these are full too, senders are asked to retry. Questions that need that part are refused."},
		{nil, ""},
	} {
		failing = c.err
		got := problems()
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || got[0].Code != problemNotStored || !strings.HasPrefix(got[0].Text, c.want)) {
			t.Errorf("%v: %+v, want %q", c.err, got, c.want)
		}
	}
}

// Traces that were given up are reported with how many and of when, for a day.
func TestLostTracesAsProblem(t *testing.T) {
	at := time.Date(2026, 3, 1, 10, 0, 30, 0, time.UTC)
	now, st := at, traces.Stats{}
	problems := lossProblems(func() traces.Stats { return st }, func() time.Time { return now })
	if got := problems(); got != nil {
		t.Errorf("nothing lost: %+v", got)
	}
	st = traces.Stats{LostKept: 1, LostRequests: 1200, Lost: traces.Loss{From: at.Unix() - 600, To: at.Unix(), Last: at.Unix()}}
	const text = "Lost since the start: 1 trace and the breakdown of 1,200 requests, which could not be stored, the last at 2026-03-01 10:00:30Z. The requests themselves are counted."
	got := problems()
	if len(got) != 1 || got[0].Code != problemTraces || got[0].Text != text || got[0].From != api.Float(at.Unix()-600) || got[0].To != api.Float(at.Unix()) {
		t.Fatalf("%+v, want %q", got, text)
	}
	if want := "1 trace and the breakdown of 1,200 requests lost. "; !strings.HasPrefix(got[0].Summary, want) {
		t.Errorf("the summary is %q, want %q", got[0].Summary, want)
	}
	now = at.Add(lossShown + time.Second)
	if got := problems(); got != nil {
		t.Errorf("a day later: %+v", got)
	}
}

// The page about a degraded server explains every code of a problem.
func TestDegradedDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/degraded.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range problemCodes {
		if !strings.Contains(string(text), "\n## `"+code+"`") {
			t.Errorf("docs/degraded.md has no section on %s", code)
		}
	}
}

// A server with problems is ready and says that it is degraded: on /readyz, in
// its status and in its metrics.
func TestDegraded(t *testing.T) {
	full := error(nil)
	s := start(t, testConfig(t.TempDir()))
	s.health.watch(spaceProblems(func() error { return full }))
	base := "http://" + s.Addr()
	if code, body := get(t, base+"/readyz"); code != http.StatusOK || body != "ready\n" {
		t.Errorf("whole: /readyz answers %d %q", code, body)
	}
	full = errors.New("cannot tell")
	if _, body := get(t, base+"/readyz"); body != "ready\n" {
		t.Errorf("space unknown: /readyz answers %q", body)
	}
	full = fmt.Errorf("%w on the disk of /data: 3 MiB free, 256 MiB must stay free", store.ErrFull)
	const want = "degraded\n" +
		"disk_full: Nothing new is stored: no space left on the disk of /data: 3 MiB free, 256 MiB must stay free." +
		" What arrives waits in the journal and in memory, and is not shown yet; when these are full too, senders are asked to retry." +
		" Traces and marks cannot be kept. Questions are answered." +
		" Next: free space on the disk, or raise retention.max_bytes if that is the bound; it is tried again by itself, after 30 seconds at most.\n"
	if code, body := get(t, base+"/readyz"); code != http.StatusOK || body != want {
		t.Errorf("full: /readyz answers %d %q, want %q", code, body, want)
	}
	c := &client.Client{Address: s.Addr()}
	if st, err := c.Status(t.Context()); err != nil || len(st.Problems) != 1 || st.Problems[0].Code != "disk_full" || !math.IsNaN(float64(st.Problems[0].From)) {
		t.Errorf("status %+v, %v", st, err)
	}
	if n := metric(t, s, `tailscope_problems{code="disk_full"}`); n != 1 {
		t.Errorf("%v problems of a full disk in the metrics, want 1", n)
	}
	if n := metric(t, s, `tailscope_problems{code="damage"}`); n != 0 {
		t.Errorf("%v problems of damage in the metrics, want 0", n)
	}
}

// A journal that is damaged does not keep the server from starting: it says so.
func TestDegradedByDamage(t *testing.T) {
	cfg := testConfig(t.TempDir())
	stop(t, start(t, cfg))
	journal := filepath.Join(cfg.Data, "journal", "generation-00000000000000000007.journal")
	if err := os.WriteFile(journal, bytes.Repeat([]byte("not a journal"), 10), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, cfg)
	code, body := get(t, "http://"+s.Addr()+"/readyz")
	if code != http.StatusOK || !strings.HasPrefix(body, "degraded\n") || !strings.Contains(body, "damage: ") || !strings.Contains(body, filepath.Base(journal)) {
		t.Errorf("/readyz answers %d %q", code, body)
	}
	if n := metric(t, s, `tailscope_damaged_files{part="journal"}`); n < 1 {
		t.Errorf("%v damaged journals in the metrics", n)
	}
	if kept, err := filepath.Glob(filepath.Join(cfg.Data, "damaged", "*")); err != nil || len(kept) != 2 {
		t.Errorf("damaged/ holds %v, %v; want the journal and why", kept, err)
	}
	// It is said until somebody acknowledges it.
	stop(t, s)
	s = start(t, cfg)
	if _, again := get(t, "http://"+s.Addr()+"/readyz"); again != body {
		t.Errorf("after a restart /readyz answers %q, want %q", again, body)
	}
	if n := metric(t, s, `tailscope_damaged_files{part="journal"}`); n < 1 {
		t.Errorf("%v damaged journals in the metrics after a restart", n)
	}
	if n := metric(t, s, `tailscope_losses_of_unknown_size{part="journal"}`); n != 1 {
		t.Errorf("%v losses of unknown size in the metrics, want 1", n)
	}
	c := &client.Client{Address: s.Addr()}
	if got, err := c.AcknowledgeDamage(t.Context()); err != nil || got.Acknowledged != 1 || got.Left != 0 {
		t.Fatalf("acknowledged %+v, %v; want 1", got, err)
	}
	for range 2 {
		if _, body := get(t, "http://"+s.Addr()+"/readyz"); body != "ready\n" {
			t.Errorf("acknowledged: /readyz answers %q", body)
		}
		if n := metric(t, s, `tailscope_losses_of_unknown_size{part="journal"}`); n != 0 {
			t.Errorf("acknowledged: %v losses of unknown size in the metrics", n)
		}
		stop(t, s)
		s = start(t, cfg) // and from then on
	}
}

// What cost nothing is reported and does not degrade. What a running server can
// acknowledge is over; a damaged file that is still in place is not.
func TestRecoveredIsReady(t *testing.T) {
	cfg := testConfig(t.TempDir())
	stop(t, start(t, cfg))
	o := pebblestore.Options{Dir: filepath.Join(cfg.Data, "store"), DamagedDir: filepath.Join(cfg.Data, "damaged")}
	gone := store.Damage{Part: "store", File: filepath.Join(o.DamagedDir, "000004.log"), Reason: "its end does not check"}
	if err := errors.Join(os.MkdirAll(o.DamagedDir, 0o700), pebblestore.Remember(o, gone)); err != nil {
		t.Fatal(err)
	}
	s := start(t, cfg)
	if _, body := get(t, "http://"+s.Addr()+"/readyz"); !strings.HasPrefix(body, "ready\nrecovered: No observation was lost. ") || !strings.Contains(body, "/api/v1/damage/acknowledge") {
		t.Errorf("/readyz answers %q", body)
	}
	here := filepath.Join(o.Dir, "000999.sst")
	if err := os.WriteFile(here, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.damageMu.Lock()
	s.known = append(s.known, store.Damage{Part: "store", File: here, Reason: "checksum mismatch", Lost: "slots", Observations: -1})
	s.damageMu.Unlock()
	if _, body := get(t, "http://"+s.Addr()+"/readyz"); !strings.HasPrefix(body, "degraded\n") {
		t.Errorf("with a damaged table /readyz answers %q", body)
	}
	res, err := http.Post("http://"+s.Addr()+"/api/v1/damage/acknowledge", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || strings.TrimSpace(string(body)) != `{"acknowledged":1,"left":1}` {
		t.Errorf("answered %d %s %v", res.StatusCode, body, err)
	}
	if _, body := get(t, "http://"+s.Addr()+"/readyz"); !strings.HasPrefix(body, "degraded\n") || strings.Contains(body, "recovered") {
		t.Errorf("acknowledged: /readyz answers %q", body)
	}
	if res, err := http.Post("http://"+s.Addr()+"/api/v1/damage/acknowledge", "text/plain", strings.NewReader("{}")); err != nil || res.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("a form posts it: %v %v", res.StatusCode, err)
	} else {
		res.Body.Close()
	}
}
