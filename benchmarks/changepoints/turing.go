package changepoints

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// turing publishes the dataset; its series and their terms are described there one by
// one.
const turing = "https://github.com/alan-turing-institute/TCPD"

// Labelled is a series of numbers with the moments that each person saw.
type Labelled struct {
	Name   string
	Rows   [][]float64 // one per slot; NaN where missing
	Labels [][]int     // first slots of what is new
	Season int         // 12 of months, else 0
}

// FetchTuring returns the directory of a copy of the dataset under cache, made
// if there is none.
func FetchTuring(ctx context.Context, cache string) (string, error) {
	dir := filepath.Join(cache, "tcpd")
	if _, err := os.Stat(filepath.Join(dir, "annotations.json")); err == nil {
		return dir, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", "clone", "--quiet", "--depth", "1", turing, dir)
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return "", fmt.Errorf("clone %s: %w\n%s", turing, err, out)
	}
	return dir, nil
}

// LoadTuring reads the series that a copy of the dataset holds and that are
// labelled, by name. Those that cannot be passed on are not in it.
func LoadTuring(dir string) ([]Labelled, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "annotations.json"))
	if err != nil {
		return nil, err
	}
	var labels map[string]map[string][]int
	if err := json.Unmarshal(raw, &labels); err != nil {
		return nil, fmt.Errorf("%s: annotations.json: %w", dir, err)
	}
	var names []string
	for name := range labels {
		names = append(names, name)
	}
	slices.Sort(names)
	var out []Labelled
	for _, name := range names {
		raw, err := os.ReadFile(filepath.Join(dir, "datasets", name, name+".json"))
		if os.IsNotExist(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		var d struct {
			Slots int `json:"n_obs"`
			Time  struct {
				Format string `json:"format"`
			} `json:"time"`
			Series []struct {
				Raw []*float64 `json:"raw"`
			} `json:"series"`
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", dir, name, err)
		}
		l := Labelled{Name: name, Rows: make([][]float64, d.Slots)}
		for t := range l.Rows {
			l.Rows[t] = make([]float64, len(d.Series))
			for c, s := range d.Series {
				if len(s.Raw) != d.Slots {
					return nil, fmt.Errorf("%s: %s has %d values of %d", dir, name, len(s.Raw), d.Slots)
				}
				l.Rows[t][c] = math.NaN()
				if s.Raw[t] != nil {
					l.Rows[t][c] = *s.Raw[t]
				}
			}
		}
		if d.Time.Format == "%Y-%m" {
			l.Season = 12
		}
		for _, person := range labels[name] {
			l.Labels = append(l.Labels, person)
		}
		out = append(out, l)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s holds no labelled series", dir)
	}
	return out, nil
}
