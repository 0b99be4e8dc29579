//go:build servers

package experiment_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment"
	"tailscope/test/program"
)

// The generator must not be late because other tests keep the machine busy.
func TestMain(m *testing.M) {
	program.Precede(-10)
	os.Exit(m.Run())
}

// example copies an example into a directory of the test's own, with texts of its
// files replaced: pairs of old and new. Each old one must be there.
func example(t *testing.T, name string, replace ...string) (dir string) {
	t.Helper()
	root, err := program.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "docs", "examples", name))); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(replace); i += 2 {
		found := false
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(text, []byte(replace[i])) {
				found = true
				if err := os.WriteFile(f, bytes.ReplaceAll(text, []byte(replace[i]), []byte(replace[i+1])), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !found {
			t.Fatalf("no file of the example %s holds %q", name, replace[i])
		}
	}
	return dir
}

// variantFirst is a seed with which the first round of two settings begins with
// the variant.
var variantFirst = func() (seed uint64) {
	for seed = 1; experiment.Order(seed, 0, 2)[0] != 1; seed++ {
	}
	return seed
}()

// begin starts an experiment; done gives what it printed.
func begin(t *testing.T, file string) (cmd *exec.Cmd, done func() *api.Experiment) {
	t.Helper()
	bin, err := program.Build(t.Context(), "tailscope")
	if err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	cmd = exec.Command(bin, "experiment", "run", file, "--format", "json", "--seed", strconv.FormatUint(variantFirst, 10))
	cmd.Env = append(os.Environ(), "TAILSCOPE="+bin)
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it has ended, unless the test failed
		select {
		case <-ended:
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
		}
	})
	return cmd, func() *api.Experiment {
		t.Helper()
		err := <-ended
		ended <- err
		var trial api.Experiment
		if json.Unmarshal(out.Bytes(), &trial) != nil {
			t.Fatalf("%v\n%s\n%s", err, out.Bytes(), log.Bytes())
		}
		t.Logf("%s\n%s", log.Bytes(), trial.Headline)
		return &trial
	}
}

// tolerant goes into the scenarios: other tests run on the same machines, so the
// generator is late at times. Durations of such runs say nothing, and nothing is
// asserted of them; what was done, which servers were asked, what was counted and how
// much memory it took is the same on any machine.
const tolerant = "limits: {late: 100%, cpu: 100%}"

// whole fails unless every round is, as all were asked for, and the control holds.
func whole(t *testing.T, trial *api.Experiment, rounds int) {
	t.Helper()
	if !trial.Restored {
		t.Errorf("the control was not restored: %s", trial.RestoreError)
	}
	for _, r := range trial.Rounds {
		if !r.Valid {
			t.Logf("round %d, %s does not count: %s", r.Round, r.Setting, r.Why)
		}
	}
	if trial.Failed != "" || trial.Stopping.Done != rounds {
		t.Fatalf("%d rounds of %d: %s", trial.Stopping.Done, rounds, trial.Failed)
	}
	if !slices.ContainsFunc(trial.Warnings, func(w api.CompareWarning) bool { return w.Code == "limits" }) {
		t.Error("nothing warns of the limits of the generator")
	}
}

func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return ports
}

func listening(port string) bool {
	c, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// nginx returns the example of workers: 8, the control, and 2, for as long as asked.
func nginx(t *testing.T, measure string) (dir, work string, ports []string) {
	work = filepath.Join(t.TempDir(), "nginx")
	ports = freePorts(t, 2)
	dir = example(t, "nginx-workers",
		"/tmp/tailscope-nginx", work, "28443", ports[0], "28480", ports[1],
		"{{workers}}\"]", "{{workers}} "+work+"\"]",
		"sweep: [1, 2, 4, 8, 24]", "variants: [{workers: 2}]", "rounds: 6", "rounds: 3",
		"cpu_per_request]", "cpu_per_request, resident_bytes_of_nginx]", "timeout: 5s", "timeout: 5s\n"+tolerant,
		"rate: 4000", "rate: 300", "for: 8s", "for: "+measure, "at_most: 4s", "at_most: 1s")
	return dir, work, ports
}

func workers(t *testing.T, work string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(work, "workers.conf"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// Two settings of a real nginx with TLS: applied, measured, judged by query, and
// the control holds at the end.
func TestNginxWorkers(t *testing.T) {
	dir, work, ports := nginx(t, "2s")
	_, done := begin(t, filepath.Join(dir, "workers.yaml"))
	trial := done()
	whole(t, trial, 3)
	queries, smaller := map[string]bool{}, false
	for _, row := range trial.Rows {
		queries[row.Query] = true
		if row.Rounds != 3 || row.Requests < 6*2*300/9*9/10 { // of the rarest query
			t.Errorf("%q: %d rounds, %d requests", row.Query, row.Rounds, row.Requests)
		}
		if row.Setting != "workers=2" || row.Against != "workers=8" {
			t.Errorf("a row of %s against %s", row.Setting, row.Against)
		}
		for _, m := range row.Measures {
			if m.Name == "errors" && m.Variant > 0.01 {
				t.Errorf("%s: %.1f %% errors", row.Query, 100*m.Variant)
			}
			// Three processes are smaller than nine, on a busy machine too.
			if m.Name == "resident_bytes_of_nginx" {
				smaller = m.Verdict == "lower" && m.Effect < 0.8 && m.High < 1
				t.Log(m.Sentence)
			}
		}
	}
	if !smaller {
		t.Error("nginx with two workers is not judged smaller than with eight")
	}
	for _, q := range []string{"", "icon", "api", "page", "picture"} {
		if !queries[q] {
			t.Errorf("no row of query %q", q)
		}
	}
	if got := workers(t, work); got != "worker_processes 8;" {
		t.Errorf("the control does not hold: %s", got)
	}
	if !strings.Contains(fmt.Sprint(trial.Environment.Versions), "nginx") {
		t.Errorf("versions %v", trial.Environment.Versions)
	}
	for _, p := range ports {
		if listening(p) {
			t.Errorf("something listens on %s still", p)
		}
	}
}

// An experiment that is asked to end while a variant holds applies its control
// again, and leaves nothing running.
func TestInterrupted(t *testing.T) {
	dir, work, ports := nginx(t, "30s")
	cmd, done := begin(t, filepath.Join(dir, "workers.yaml"))
	await(t, func() bool {
		b, _ := os.ReadFile(filepath.Join(work, "workers.conf"))
		return strings.Contains(string(b), " 2;")
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	trial := done()
	if trial.Failed == "" {
		t.Error("nothing says that it was interrupted")
	}
	if !trial.Restored || workers(t, work) != "worker_processes 8;" {
		t.Errorf("restored %v (%s); %s", trial.Restored, trial.RestoreError, workers(t, work))
	}
	for _, p := range ports {
		if listening(p) {
			t.Errorf("something listens on %s still", p)
		}
	}
}

// One that was killed has its control restored by the command for that.
func TestKilled(t *testing.T) {
	dir, work, _ := nginx(t, "30s")
	file := filepath.Join(dir, "workers.yaml")
	cmd, _ := begin(t, file)
	await(t, func() bool {
		b, _ := os.ReadFile(filepath.Join(work, "workers.conf"))
		return strings.Contains(string(b), " 2;")
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, name := range []string{"nginx.pid", "behind.pid"} { // nobody else ends them now
			if b, err := os.ReadFile(filepath.Join(work, name)); err == nil {
				if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
					_ = syscall.Kill(pid, syscall.SIGTERM)
				}
			}
		}
	})
	bin, err := program.Build(t.Context(), "tailscope")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	await(t, func() bool {
		out, err := exec.CommandContext(ctx, bin, "experiment", "restore", file).CombinedOutput()
		if err != nil {
			t.Logf("restore: %v: %s", err, out)
		}
		return err == nil && workers(t, work) == "worker_processes 8;"
	})
}

// A SolrCloud with two layouts of few documents.
func TestSolrShards(t *testing.T) {
	work := filepath.Join(t.TempDir(), "solr")
	port := freePorts(t, 1)[0]
	var drop []string
	for _, n := range []string{"2", "3", "6", "8"} {
		drop = append(drop, "  - {name: docs"+n+", ", "  # - {name: docs"+n+", ")
	}
	dir := example(t, "solr", append(drop,
		"/tmp/tailscope-solr", work, "port: 28983", "port: "+port, "documents: 200000", "documents: 4000",
		"layouts: 1 2 3 4 6 8", "layouts: 1 4", "heap: 2g", "heap: 512m", "for: 15s", "for: 4s", "rate: 100", "rate: 50", "at_least: 3s, at_most: 20s, slot: 500ms", "at_least: 1s, at_most: 3s",
		"sweep: [1, 2, 3, 4, 6, 8]", "sweep: [1, 4]", "rounds: 5", "rounds: 2", "timeout: 10s", "timeout: 10s\n"+tolerant)...)
	_, done := begin(t, filepath.Join(dir, "shards.yaml"))
	trial := done()
	whole(t, trial, 2)
	if i := slices.IndexFunc(trial.Loads, func(l api.BenchLoad) bool { return l.Documents != 4000 || l.Errors > 0 }); len(trial.Loads) != 2 || i >= 0 {
		t.Errorf("loaded %+v", trial.Loads)
	}
	queries := map[string]bool{}
	for _, row := range trial.Rows {
		if queries[row.Query] = true; row.Tenant != "" {
			continue
		}
		for _, m := range row.Measures {
			if m.Name == "errors" && (m.Control > 0.05 || m.Variant > 0.05) {
				t.Errorf("%s: errors %.1f %% and %.1f %%", row.Query, 100*m.Control, 100*m.Variant)
			}
		}
	}
	if len(queries) < 16 { // fifteen, and all together
		t.Errorf("rows of %d queries: %v", len(queries), queries)
	}
	if listening(port) {
		t.Error("Solr runs still")
	}
	if _, err := os.Stat(filepath.Join(work, "cluster")); err == nil {
		t.Error("files of the cluster are there still")
	}
}

func await(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if ok() {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	t.Fatal("not within a minute")
}
