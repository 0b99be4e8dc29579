package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"tailscope/api"
	"tailscope/internal/backoff"
	"tailscope/internal/cluster"
	"tailscope/internal/series"
	"tailscope/test/program"
)

// SeveralOptions of rounds with several servers on one store in ClickHouse.
type SeveralOptions struct {
	Seed    uint64
	Rounds  int      // each kind of fault once, then at random
	Kinds   []string // default all
	Servers int
	Shards  int
	Rate    float64       // spans a second to each server
	Frozen  time.Duration // how long a server is frozen; more than cluster.Dead
	Dir     string        // for data and logs
	Logf    func(format string, args ...any)
}

// Faults of several servers.
const (
	shardAway    = "kill -9 of a shard"
	answerLost   = "answers of insertions lost"
	killFlushing = "kill -9 of a server whose insertions are not answered"
	twins        = "a copy of a server that is alive"
	twinsAtOnce  = "a killed server and its copy started at once"
	frozen       = "the server that guards frozen"
	readOnly     = "cluster read-only"
	nodeFull     = "disk of a shard full"
)

// Several runs servers on one store, with load to all of them, and does one thing to them
// after another. After each round the ledger is compared. One check's receiver counts what it
// is told.
func Several(ctx context.Context, o SeveralOptions) (*Result, error) {
	s := &several{o: o, rng: rand.New(rand.NewPCG(o.Seed, 6)), begun: time.Now(), all: map[Line]Bounds{},
		res: &Result{Met: map[string]int{}}}
	defer s.close()
	if err := s.start(ctx); err != nil {
		return s.res, err
	}
	kinds := slices.Clone(o.Kinds)
	if len(kinds) == 0 {
		kinds = []string{shardAway, answerLost, killFlushing, frozen, readOnly, twins, twinsAtOnce, nodeFull}
	}
	if s.small == "" {
		s.logf("the disk of a shard is not filled: this process may not mount a small one")
		kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind == nodeFull })
	}
	order := s.rng.Perm(len(kinds))
	for i := range o.Rounds {
		name := kinds[s.rng.IntN(len(kinds))]
		if i < len(order) {
			name = kinds[order[i]]
		}
		if err := s.round(ctx, fmt.Sprint(i), name); err != nil {
			return s.res, fmt.Errorf("round %d, %s: %w", i, name, err)
		}
	}
	return s.res, ctx.Err()
}

type several struct {
	o       SeveralOptions
	rng     *rand.Rand
	res     *Result
	begun   time.Time
	all     map[Line]Bounds // of the rounds that are over
	c       *program.ClickHouse
	nets    []*network // to c.Nodes
	small   string     // a small disk, of node 2; empty: none
	flags   []string
	servers []*program.Tailscope
	copies  int
	door    *door
}

func (s *several) logf(format string, args ...any) {
	if s.o.Logf != nil {
		s.o.Logf(format, args...)
	}
}

func (s *several) start(ctx context.Context) (err error) {
	if err := os.MkdirAll(s.o.Dir, 0o755); err != nil {
		return err
	}
	if s.c, err = program.StartClickHouse(ctx, s.o.Shards); err != nil {
		return err
	}
	if err := s.shrink(ctx, s.c.Nodes[1]); err != nil {
		return err
	}
	var hosts []string
	for _, node := range s.c.Nodes {
		n, err := newNetwork(node.HTTP)
		if err != nil {
			return err
		}
		s.nets, hosts = append(s.nets, n), append(hosts, n.address())
	}
	if s.door, err = newDoor(s.o.Dir); err != nil {
		return err
	}
	s.flags = []string{"--ingest-flush=200ms", "--checks", s.door.Checks, "--store", s.c.AddressBy(hosts, "faults")}
	for i := range s.o.Servers {
		t, err := s.server(ctx, filepath.Join(s.o.Dir, fmt.Sprint("server-", i)))
		if err != nil {
			return err
		}
		s.servers = append(s.servers, t)
	}
	return nil
}

func (s *several) server(ctx context.Context, data string) (*program.Tailscope, error) {
	return program.StartTailscope(ctx, data, s.flags...)
}

func (s *several) close() {
	for _, t := range s.servers {
		t.Kill()
	}
	for _, n := range s.nets {
		n.close()
	}
	if s.door != nil {
		s.door.close()
	}
	if s.c != nil {
		_ = s.c.Close()
	}
}

// shrink puts a node on a small disk, if this process may.
func (s *several) shrink(ctx context.Context, n *program.ClickHouseNode) (err error) {
	n.Kill()
	if s.small, err = s.c.MoveToSmallDisk(n, 1500); err != nil && !errors.Is(err, os.ErrPermission) {
		return err
	}
	return s.c.Restart(ctx, n)
}

// round does one thing while all servers are sent to. Its error is of the campaign; what the
// product does wrong is a failure.
func (s *several) round(ctx context.Context, stretch, name string) error {
	var loads []*load
	for i, t := range s.servers {
		l, err := startLoad(ctx, t, fmt.Sprintf("%s-%d", stretch, i), 1, s.o.Rate)
		if err != nil {
			return err
		}
		loads = append(loads, l)
	}
	err := backoff.Sleep(ctx, time.Second)
	if err == nil {
		err = s.do(ctx, name)
	}
	if err == nil {
		err = backoff.Sleep(ctx, time.Second)
	}
	var counts Counts
	for _, l := range loads {
		for line, b := range l.end() {
			s.all[line] = b
		}
		counts.add(l.ledger.Counts())
	}
	var wrong *wrongError
	if errors.As(err, &wrong) {
		s.fail(fmt.Errorf("round %s, %s: %w", stretch, name, err))
	} else if err != nil {
		return err
	}
	s.res.Counts.add(counts)
	s.res.Rounds++
	s.res.Met[name]++
	for i, t := range s.servers {
		d, err := awaitAgreement(ctx, t, s.all, s.begun, time.Minute)
		if i == 0 {
			s.res.Lost += d.Lost
			s.res.Doubled += d.Doubled
		}
		if err != nil || !d.Ok() {
			s.fail(errors.Join(fmt.Errorf("round %s, %s: server %d: %v\n%s", stretch, name, i, d, lastLines(t.Log(), 20)), err))
		}
	}
	s.logf("round %s, %s: %+v, receiver told %v", stretch, name, counts, s.door.told())
	s.res.Incidents, s.res.Deliveries = s.door.counts()
	return ctx.Err()
}

func (s *several) fail(err error) {
	f := Failure{s.o.Seed, err.Error()}
	s.res.Failures = append(s.res.Failures, f)
	s.logf("%v", f)
}

// wrongError says what the product does wrong.
type wrongError struct{ error }

func wrong(format string, args ...any) error { return &wrongError{fmt.Errorf(format, args...)} }

// eventually waits until what holds.
func eventually(ctx context.Context, within time.Duration, what string, holds func() bool) error {
	for deadline := time.Now().Add(within); !holds(); {
		if time.Now().After(deadline) {
			return wrong("not within %v: %s", within, what)
		}
		if err := backoff.Sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (s *several) do(ctx context.Context, name string) error {
	some := s.rng.IntN(len(s.servers))
	long := time.Duration(1000+s.rng.IntN(3000)) * time.Millisecond
	switch name {
	case shardAway:
		n := s.rng.IntN(len(s.c.Nodes))
		s.c.Nodes[n].Kill()
		err := s.named(ctx, s.servers[some], n)
		return errors.Join(err, s.c.Restart(ctx, s.c.Nodes[n]))
	case answerLost:
		before := s.lost()
		for _, n := range s.nets {
			n.lose.Store(true)
		}
		err := backoff.Sleep(ctx, long)
		for _, n := range s.nets {
			n.lose.Store(false)
		}
		if err == nil && s.lost() == before {
			err = errors.New("no answer was lost")
		}
		return err
	case killFlushing:
		for _, n := range s.nets {
			n.holdAnswers()
		}
		held := s.held()
		err := eventually(ctx, 20*time.Second, "insertions", func() bool { return s.held() > held })
		if err == nil {
			err = backoff.Sleep(ctx, 500*time.Millisecond) // all servers insert by then
		}
		s.servers[some].Kill()
		for _, n := range s.nets {
			n.release()
		}
		if err != nil {
			return err
		}
		return s.again(ctx, some, s.servers[some].Data)
	case twins:
		copied, err := s.copyOf(s.servers[some])
		if err != nil {
			return err
		}
		if t, err := s.server(ctx, copied); err == nil {
			t.Kill()
			return wrong("a copy of a server that is alive was started")
		} else if !strings.Contains(err.Error(), cluster.ErrTwin.Error()) {
			return wrong("a copy of a server that is alive is refused with %w", err)
		}
		return nil
	case twinsAtOnce:
		return s.twinsAtOnce(ctx, some)
	case frozen:
		return s.freeze(ctx)
	case readOnly:
		err := s.c.ReadOnly(ctx, true)
		if err == nil {
			err = backoff.Sleep(ctx, long)
		}
		return errors.Join(err, s.c.ReadOnly(ctx, false))
	case nodeFull:
		free, err := program.FillDisk(s.small, 0)
		if err != nil {
			return err
		}
		return errors.Join(backoff.Sleep(ctx, 2*long), free())
	}
	return fmt.Errorf("no fault is named %q", name)
}

func (s *several) lost() (n int64) {
	for _, x := range s.nets {
		n += x.lost.Load()
	}
	return n
}

func (s *several) held() (n int64) {
	for _, x := range s.nets {
		n += x.held.Load()
	}
	return n
}

// again starts a server that has ended.
func (s *several) again(ctx context.Context, i int, data string) error {
	t, err := s.server(ctx, data)
	if err != nil {
		return wrong("no start: %w", err)
	}
	s.servers[i] = t
	s.res.Restarts++
	return nil
}

// named checks that a server says which shard is away, and answers no question without it.
func (s *several) named(ctx context.Context, t *program.Tailscope, node int) error {
	host := s.nets[node].address()
	err := eventually(ctx, 30*time.Second, "/api/v1/cluster names the node that is away", func() bool {
		var r api.ClusterResponse
		if ask(ctx, t, "/api/v1/cluster", &r) != nil {
			return false
		}
		away := slices.ContainsFunc(r.Nodes, func(n api.ClusterNode) bool { return n.Host == host && !n.Answers && n.Error != "" })
		return away && slices.ContainsFunc(r.Findings, func(f api.ClusterFinding) bool { return f.Where == host && f.Next != "" })
	})
	if err != nil {
		return err
	}
	// By what it has tried to store, which it tries again after half a minute at most.
	var status int
	var body []byte
	if err := eventually(ctx, time.Minute, "/api/v1/status names the node that is away", func() bool {
		status, body, err = fetch(ctx, t.URL+"/api/v1/status", nil)
		return err == nil && status == http.StatusOK && strings.Contains(string(body), host)
	}); err != nil {
		return fmt.Errorf("%w: it is %s, answered %d %.2000s", err, host, status, body)
	}
	now := time.Now().Unix()
	status, body, err = fetch(ctx, t.URL+"/api/v1/distribution", url.Values{"family": {series.SpanDuration}, "by": {"service"},
		"start": {strconv.FormatInt(now-900, 10)}, "end": {strconv.FormatInt(now, 10)}})
	if err != nil {
		return err
	}
	if status < 500 || !strings.Contains(string(body), host) {
		return wrong("a question while %s is away is answered %d %.300s", host, status, body)
	}
	return nil
}

// ask decodes a server's answer.
func ask(ctx context.Context, t *program.Tailscope, path string, into any) error {
	status, body, err := fetch(ctx, t.URL+path, nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %.200s", path, status, body)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// copyOf copies a server's directory, as it is.
func (s *several) copyOf(t *program.Tailscope) (string, error) {
	s.copies++
	to := filepath.Join(s.o.Dir, fmt.Sprint("copy-", s.copies))
	if t.Data == to {
		return "", errors.New("a directory is copied onto itself")
	}
	err := filepath.WalkDir(t.Data, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // its journal goes on meanwhile
			return nil
		} else if err != nil {
			return err
		}
		name, err := filepath.Rel(t.Data, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), b, 0o644)
	})
	return to, err
}

// twinsAtOnce kills a server and starts it and its copy. One of them goes on.
func (s *several) twinsAtOnce(ctx context.Context, i int) error {
	s.servers[i].Kill()
	copied, err := s.copyOf(s.servers[i])
	if err != nil {
		return err
	}
	dirs := []string{s.servers[i].Data, copied}
	started, errs := make([]*program.Tailscope, 2), make([]error, 2)
	var both sync.WaitGroup
	for k, data := range dirs {
		both.Go(func() { started[k], errs[k] = s.server(ctx, data) })
	}
	both.Wait()
	switch {
	case errs[0] == nil && errs[1] == nil:
		started[1].Kill()
		s.servers[i] = started[0]
		return wrong("a server and its copy were both started")
	case errs[0] == nil:
		s.servers[i] = started[0]
	case errs[1] == nil:
		s.servers[i] = started[1]
	default:
		s.logf("a server and its copy refused each other: %v", errs[0])
		return s.again(ctx, i, dirs[0])
	}
	s.res.Restarts++
	if refused := errors.Join(errs...); !strings.Contains(refused.Error(), cluster.ErrTwin.Error()) {
		return wrong("one of a server and its copy is refused with %w", refused)
	}
	return nil
}

// freeze stops the server that guards, has its check go bad, and wakes it when another has
// told that. Each event is told once.
func (s *several) freeze(ctx context.Context) error {
	var guard *program.Tailscope
	if err := eventually(ctx, time.Minute, "a server guards", func() bool {
		for _, t := range s.servers {
			var r api.ClusterResponse
			if ask(ctx, t, "/api/v1/cluster", &r) != nil {
				continue
			}
			for _, m := range r.Servers {
				if m.Name == r.Server && m.Alive && slices.Contains(m.Works, "checks") {
					guard = t
					return true
				}
			}
		}
		return false
	}); err != nil {
		return err
	}
	if err := backoff.Sleep(ctx, 3*time.Second); err != nil { // its check runs, its notes are stored
		return err
	}
	before, _ := s.door.counts()
	if err := syscall.Kill(guard.Pid, syscall.SIGSTOP); err != nil {
		return err
	}
	if err := s.door.Shut(); err != nil {
		return err
	}
	until := time.Now().Add(s.o.Frozen)
	told := func(kind string) func() bool {
		return func() bool { return s.door.of(before)[kind] > 0 }
	}
	err := eventually(ctx, s.o.Frozen+30*time.Second, "another server tells that the door is shut", told("opened"))
	if serr := backoff.Sleep(ctx, time.Until(until)); err == nil {
		err = serr
	}
	if werr := syscall.Kill(guard.Pid, syscall.SIGCONT); err == nil {
		err = werr
	}
	if err == nil {
		err = backoff.Sleep(ctx, 10*time.Second) // what it would tell it tells by then
	}
	if oerr := s.door.Open(); err == nil {
		err = oerr
	}
	if err == nil {
		err = eventually(ctx, time.Minute, "the end is told", told("resolved"))
	}
	if err == nil {
		err = backoff.Sleep(ctx, 3*time.Second)
	}
	if got := s.door.of(before); err == nil && (got["opened"] != 1 || got["resolved"] != 1 || got["twice"] != 0) {
		err = wrong("of one incident is told %v", s.door.told())
	}
	return err
}

// door is what the check looks at, and what its receiver is told.
type door struct {
	*program.Door
	receiver *httptest.Server

	mu     sync.Mutex
	events []told
}

type told struct {
	Incident string `json:"incident"`
	Seq      int    `json:"seq"`
	Kind     string `json:"kind"`
}

func newDoor(dir string) (_ *door, err error) {
	d := &door{}
	d.receiver = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e told
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.events = append(d.events, e)
	}))
	if d.Door, err = program.NewDoor(dir, d.receiver.URL); err != nil {
		d.receiver.Close()
		return nil, err
	}
	return d, nil
}

func (d *door) close() {
	_ = d.Shut()
	d.receiver.Close()
}

func (d *door) told() []told {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.events)
}

// counts returns how many incidents were told, and how many deliveries came.
func (d *door) counts() (incidents, deliveries int) {
	seen := map[string]bool{}
	all := d.told()
	for _, e := range all {
		seen[e.Incident] = true
	}
	return len(seen), len(all)
}

// of counts deliveries by kind, without those of the first so many incidents, and under
// "twice" those of a number that came before.
func (d *door) of(first int) map[string]int {
	out, numbers, order := map[string]int{}, map[told]bool{}, []string{}
	for _, e := range d.told() {
		if !slices.Contains(order, e.Incident) {
			order = append(order, e.Incident)
		}
		if slices.Index(order, e.Incident) < first {
			continue
		}
		out[e.Kind]++
		number := told{Incident: e.Incident, Seq: e.Seq}
		if numbers[number] {
			out["twice"]++
		}
		numbers[number] = true
	}
	return out
}
