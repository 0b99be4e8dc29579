package changepoints

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed peers.py
var script string

// requirements are the measured versions of the peers.
var requirements = []string{"apache-otava==0.8.0", "ruptures==1.1.10"}

// Peers runs other people's code in a Python environment of its own.
type Peers struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	err bytes.Buffer
}

// Found are the moments that each method finds, by column.
type Found struct {
	Otava   [][]int `json:"otava"`    // its defaults: window 50, p 0.001
	Otava05 [][]int `json:"otava_05"` // p 0.05
	Pelt    [][]int `json:"pelt"`
}

// StartPeers installs them under cache, if they are not there yet, and starts
// them. Close ends them.
func StartPeers(ctx context.Context, cache string) (*Peers, error) {
	venv := filepath.Join(cache, "changepoints-"+requirements[0]+"-"+requirements[1])
	python := filepath.Join(venv, "bin", "python")
	if exec.CommandContext(ctx, python, "-c", "import otava, ruptures").Run() != nil {
		for _, args := range [][]string{
			{"python3", "-m", "venv", "--clear", venv},
			append([]string{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"}, requirements...),
		} {
			if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", args[0], err, out)
			}
		}
	}
	p := &Peers{cmd: exec.CommandContext(ctx, python, "-c", script)}
	p.cmd.Stderr = &p.err
	p.cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	p.out.Buffer(nil, 1<<24)
	return p, p.cmd.Start()
}

// Find asks for one series.
func (p *Peers) Find(rows [][]float64) (Found, error) {
	columns := make([][]*float64, len(rows[0]))
	for _, row := range rows {
		for c, v := range row {
			if math.IsNaN(v) {
				columns[c] = append(columns[c], nil)
			} else {
				columns[c] = append(columns[c], &v)
			}
		}
	}
	line, err := json.Marshal(map[string]any{"columns": columns})
	if err != nil {
		return Found{}, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return Found{}, fmt.Errorf("ask the peers: %w\n%s", err, p.err.Bytes())
	}
	if !p.out.Scan() {
		err := errors.Join(p.out.Err(), p.cmd.Wait())
		return Found{}, fmt.Errorf("the peers ended: %w\n%s", err, p.err.Bytes())
	}
	var f Found
	return f, json.Unmarshal(p.out.Bytes(), &f)
}

// Close ends them.
func (p *Peers) Close() error {
	return errors.Join(p.in.Close(), p.cmd.Wait())
}
