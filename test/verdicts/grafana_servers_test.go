//go:build servers

package verdicts

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// What Grafana's own backend asks at its defaults is answered right, and is what
// TestGrafanaAtItsDefaults makes of its published rules.
func TestGrafanaBackend(t *testing.T) {
	program := filepath.Join(t.TempDir(), "grafana")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = filepath.Join("..", "grafana") // a module of its own
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building Grafana's backend: %v\n%s", err, out)
	}
	testPanels(t, func(w *world) func(panel, string) []point {
		backend := exec.CommandContext(w.t.Context(), program, "http://"+w.server.Addr()+"/prometheus")
		backend.Stderr = os.Stderr
		in, err := backend.StdinPipe()
		if err != nil {
			w.t.Fatal(err)
		}
		out, err := backend.StdoutPipe()
		if err != nil {
			w.t.Fatal(err)
		}
		if err := backend.Start(); err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() {
			in.Close()
			if err := backend.Wait(); err != nil && w.t.Context().Err() == nil {
				w.t.Error(err)
			}
		})
		questions, answers := json.NewEncoder(in), json.NewDecoder(out)
		return func(p panel, query string) (points []point) {
			to := epoch.Add(p.until)
			if err := questions.Encode(map[string]any{"Query": query, "From": to.Add(-p.shown), "To": to, "Points": p.points, "IntervalMs": p.interval().Milliseconds()}); err != nil {
				w.t.Fatal(err)
			}
			var answer struct {
				Query  string
				Times  []int64
				Values []float64
			}
			if err := answers.Decode(&answer); err != nil {
				w.t.Fatal(err)
			}
			for i, at := range answer.Times {
				points = append(points, point{time.UnixMilli(at).Sub(epoch), answer.Values[i]})
			}
			if made := w.ask(p, query); !slices.Equal(points, made) {
				w.t.Errorf("%s of %s over %d points: the backend asks %s and has %d values; what is made of its rules has %d others", query, p.shown, p.points, answer.Query, len(points), len(made))
			}
			return points
		}
	})
}
