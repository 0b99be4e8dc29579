package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"tailscope/internal/experiment/capacity/objective"
	"tailscope/internal/experiment/capacity/search"
	"tailscope/internal/experiment/scenario"
)

// capacitySought holds the flags of all searches: the objective, the time that a search
// may take, and the precision of its answer.
type capacitySought struct {
	objective             string
	within, step, discard time.Duration
	precision             string
	level                 float64
	example               string // of an objective
	called                func(name string) string
}

// registerObjective registers --objective; example is an objective for its help.
func (f *capacitySought) registerObjective(fs *pflag.FlagSet, example string) {
	f.example = example
	fs.StringVar(&f.objective, "objective", "", "`conditions` to keep, such as '"+example+"'; must be given")
}

func (f *capacitySought) registerBounds(fs *pflag.FlagSet, precision string) {
	fs.DurationVar(&f.within, "within", 2*time.Minute, "how long the search may take")
	fs.DurationVar(&f.step, "step", 0, "how long a step is held at most; default 20s")
	fs.DurationVar(&f.discard, "discard", 0, "how much of a step's beginning is not measured; default by the objective")
	fs.StringVar(&f.precision, "precision", precision, "`share` to which the answer is to be known")
	fs.Float64Var(&f.level, "level", 0.95, "confidence of intervals")
}

// capacityWatched holds the processes under test, whose CPU and memory are read while they
// are loaded.
type capacityWatched struct{ pids, ports []int }

func (f *capacityWatched) register(fs *pflag.FlagSet) {
	fs.IntSliceVar(&f.ports, "watch-port", nil, "`port` that a process under test listens at, on this machine: its CPU and memory are read; several with commas")
	fs.IntSliceVar(&f.pids, "watch-pid", nil, "`id` of a process under test; several with commas")
}

// servers returns the processes under distinct names.
func (f *capacityWatched) servers() (out []scenario.Server) {
	for _, port := range f.ports {
		out = append(out, scenario.Server{Name: fmt.Sprintf("port %d", port), Port: port})
	}
	for _, pid := range f.pids {
		out = append(out, scenario.Server{Name: fmt.Sprintf("process %d", pid), PID: pid})
	}
	if len(out) == 1 {
		out[0].Name = "target"
	}
	return out
}

// check refuses processes that cannot be watched, before anything begins.
func (f *capacityWatched) check(called func(name string) string) error {
	seen := map[int]bool{}
	for flag, numbers := range map[string][]int{"watch-port": f.ports, "watch-pid": f.pids} {
		clear(seen)
		for _, n := range numbers {
			switch {
			case n < 1 || n > 65535 && flag == "watch-port":
				return usage{withHint(fmt.Errorf("%s %d cannot be", called(flag), n), "write the number of a process of this machine that is under test")}
			case seen[n]:
				return usage{withHint(fmt.Errorf("%s %d is given twice", called(flag), n), "leave one out")}
			}
			seen[n] = true
		}
	}
	return nil
}

// options returns the options of the search, without the bounds of its load.
func (f *capacitySought) options() (search.Options, error) {
	o := search.Options{Level: f.level, Budget: f.within, Step: f.step, Discard: f.discard}
	if f.objective == "" {
		return o, usage{withHint(errors.New("--objective is missing: nothing says what is to be kept"), "such as --objective '%s'", f.example)}
	}
	var err error
	if o.Objective, err = objective.Parse(f.objective); err != nil {
		return o, usage{hintWithin(err)}
	}
	if o.Precision, err = parsePrecision(f.precision); err != nil {
		return o, usage{withHint(fmt.Errorf("--precision %w", err), "write one such as 3%%")}
	}
	step := o.Step
	if step == 0 {
		step = 20 * time.Second
	}
	switch {
	case o.Precision < finest:
		return o, usage{withHint(fmt.Errorf("--precision %s is finer than %g %%, which takes days: half the interval takes four times as long", f.precision, 100*finest), "write one such as 3%%")}
	case o.Precision >= 1:
		return o, usage{withHint(fmt.Errorf("--precision %s is all of the answer or more", f.precision), "write one such as 3%%")}
	case !(f.level > 0.5 && f.level < 1):
		return o, usage{withHint(fmt.Errorf("%s %v is not between 0.5 and 1", f.called("level"), f.level), "write 0.95")}
	case f.step < 0 || f.discard < 0:
		return o, usage{withHint(fmt.Errorf("%s and %s are not times below 0", f.called("step"), f.called("discard")), "leave them out")}
	case f.within < step:
		return o, usage{withHint(fmt.Errorf("--within %s is less than one step of %s", f.within, step), "write --within 2m, or ask for shorter steps with %s", f.called("step"))}
	case f.within > longestSearch:
		return o, usage{withHint(fmt.Errorf("--within %s is longer than a day", f.within), "write --within 10m, and search again when something has changed")}
	}
	return o, nil
}

const (
	finest        = 0.001          // precision that can be asked for
	longestSearch = 24 * time.Hour // that can be asked for
)

// parsePrecision reads 3% or 0.03. Its callers refuse what is too large.
func parsePrecision(text string) (float64, error) {
	v, _, err := shareNumber(text)
	if err != nil || !(v > 0) {
		return 0, fmt.Errorf("%q is not a share", text)
	}
	return v, nil
}

// parseRange reads LOW..HIGH.
func parseRange(text string, whole bool) (low, high float64, err error) {
	from, to, ok := strings.Cut(text, "..")
	low, err1 := strconv.ParseFloat(strings.TrimSpace(from), 64)
	high, err2 := strconv.ParseFloat(strings.TrimSpace(to), 64)
	if !ok || err1 != nil || err2 != nil || !(low > 0) || !(high > low) || whole && (low != float64(int(low)) || high != float64(int(high))) {
		return 0, 0, fmt.Errorf("%q is not a range", text)
	}
	return low, high, nil
}
