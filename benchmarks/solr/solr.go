// Package solr asks the SolrCloud of docs/examples/solr what a simulation of it
// needs to know and what it must come to: how long a question takes one shard
// while the rest of the machine is idle, what CPU time that costs, and how long
// it takes all shards of a collection together.
//
// The questions are those of the example, read from its file.
package solr

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"golang.org/x/sys/unix"

	"tailscope/test/program"
)

// Class is a kind of questions.
type Class struct {
	Name   string
	Weight float64 // share of all questions, 0..1
	query  string  // of the URL, with {{columns}}
}

// Cluster is a running SolrCloud with its collections filled.
type Cluster struct {
	Pid     int
	URL     string // http://host:port/solr
	Classes []Class

	columns []string
	rows    [][]string
	client  *http.Client
}

// Example returns the directory of the example.
func Example() (string, error) {
	root, err := program.Root()
	return filepath.Join(root, "docs", "examples", "solr"), err
}

// New returns a cluster that runs already, whose questions are in the directory work.
func New(pid int, address, work string) (*Cluster, error) {
	dir, err := Example()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Pid: pid, URL: address, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
	if c.Classes, err = classes(filepath.Join(dir, "solr.yaml")); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(work, "questions.csv"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("questions: %w", err)
	}
	if len(all) < 2 {
		return nil, errors.New("questions: there are none")
	}
	c.columns, c.rows = all[0], all[1:]
	return c, nil
}

// classes reads the queries of the example's scenario.
func classes(file string) ([]Class, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var scenario struct {
		Vars    map[string]any
		Queries []struct {
			Name, Request string
			Weight        float64
		}
	}
	if err := yaml.Unmarshal(text, &scenario); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var all []Class
	sum := 0.0
	for _, q := range scenario.Queries {
		_, query, ok := strings.Cut(q.Request, "/select?")
		if !ok {
			return nil, fmt.Errorf("%s: %s asks for something else than /select: %s", file, q.Name, q.Request)
		}
		if q.Weight == 0 {
			q.Weight = 1
		}
		sum += q.Weight
		all = append(all, Class{Name: q.Name, Weight: q.Weight, query: query})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no queries", file)
	}
	for i := range all {
		all[i].Weight /= sum
	}
	return all, nil
}

// Question is one of a class: words of one row, numbers of another, so that the
// same words can be asked again without meeting the filters that Solr keeps.
type Question struct{ Class, Words, Numbers int }

func (c *Cluster) query(q Question) string {
	pairs := make([]string, 0, 2*len(c.columns))
	for i, name := range c.columns {
		row := q.Words
		switch name {
		case "low", "high", "since", "page":
			row = q.Numbers
		}
		pairs = append(pairs, "{{"+name+"}}", url.QueryEscape(c.rows[row][i]))
	}
	return strings.NewReplacer(pairs...).Replace(c.Classes[q.Class].query)
}

// Draw picks a question: its class by these weights, or the classes' own if they are
// nil, its rows at random.
func (c *Cluster) Draw(r *rand.Rand, weights []float64) Question {
	q := Question{Words: r.IntN(len(c.rows)), Numbers: r.IntN(len(c.rows))}
	sum := 0.0
	if weights == nil {
		for _, k := range c.Classes {
			weights = append(weights, k.Weight)
		}
	}
	for _, w := range weights {
		sum += w
	}
	for x := sum * r.Float64(); q.Class < len(c.Classes)-1; q.Class++ {
		if x -= weights[q.Class]; x < 0 {
			break
		}
	}
	return q
}

// Whole asks all shards of the collection of so many.
func (c *Cluster) Whole(ctx context.Context, shards int, q Question) (Sample, error) {
	return c.ask(ctx, shards, c.query(q))
}

// Some asks the shards of a collection that are named, from 1, through the same
// node and on the same path as all of them are asked: with one shard that is a
// leaf and what it costs to gather its answer.
func (c *Cluster) Some(ctx context.Context, shards int, q Question, which ...int) (Sample, error) {
	names := make([]string, len(which))
	for i, w := range which {
		names[i] = "shard" + strconv.Itoa(w)
	}
	// Without this a node answers for a shard of its own without asking.
	return c.ask(ctx, shards, c.query(q)+"&shortCircuit=false&shards="+strings.Join(names, ","))
}

// Sample is the cost of one request in seconds: until all of its answer was there,
// and CPU time of all of Solr meanwhile.
type Sample struct{ Wall, CPU float64 }

func (c *Cluster) ask(ctx context.Context, shards int, query string) (s Sample, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/docs%d/select?%s", c.URL, shards, query), nil)
	if err != nil {
		return s, err
	}
	busy := c.CPU()
	began := time.Now()
	resp, err := c.client.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return s, err
	}
	s = Sample{Wall: time.Since(began).Seconds(), CPU: (c.CPU() - busy).Seconds()}
	if resp.StatusCode != http.StatusOK {
		return s, fmt.Errorf("docs%d answers %s to %s", shards, resp.Status, query)
	}
	return s, nil
}

// CPU returns the CPU time of Solr so far, to the nanosecond: by its process's clock, as
// clock_getcpuclockid has it.
func (c *Cluster) CPU() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(int32(^c.Pid)<<3|2, &ts) != nil {
		return 0 // it has ended; whoever asks it notices
	}
	return time.Duration(ts.Nano())
}

// Close lets connections go.
func (c *Cluster) Close() { c.client.CloseIdleConnections() }
