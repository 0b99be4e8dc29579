package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/experiment/simulate"
	"tailscope/internal/experiment/simulate/answer"
	"tailscope/internal/experiment/simulate/measured"
	"tailscope/internal/experiment/simulate/spec"
	"tailscope/internal/query"
	"tailscope/internal/series"
)

type simulateInput struct {
	RawBody []byte `contentType:"application/json"`
}

const (
	simulatePath  = "/api/v1/simulate"
	writeSimulate = `write {"file": "simulate: search\nleaves:\n  - from: {service: solr}\nlayout: {nodes: 4, shards: 16, threads: 4, cores: 4, rate: 50}\n"}`

	// leafRange is how far back leaves are read.
	leafRange = time.Hour
	// maxWork is how many leaves the server simulates for one question: some
	// seconds.
	maxWork = 4e8
)

// maxSimulating is how many simulations the server plays at once: each uses cores.
const maxSimulating = 1

func (s *server) registerSimulate(a huma.API) {
	get(s, a, "leaves", "What leaves of a fan-out took, class by class and slot by slot", s.leaves)
	register(s, a, http.MethodPost, simulatePath, "post-simulate", "What layouts of a scatter-gather system would do", http.StatusOK,
		func(ctx context.Context, in *simulateInput) (*body[api.Simulation], error) {
			var r api.SimulateRequest
			err := decodeStrict(in.RawBody, &r, "simulation", writeSimulate)
			var out *api.Simulation
			if err == nil {
				out, err = s.simulate(ctx, r)
			}
			if err != nil {
				return nil, s.failed(ctx, "simulate", err)
			}
			return &body[api.Simulation]{out}, nil
		})
	describeBody[api.SimulateRequest](a, a.OpenAPI().Paths[simulatePath].Post, "SimulateRequest")
}

func (s *server) leaves(ctx context.Context, in *api.LeavesRequest) (*api.Leaves, error) {
	r, err := leafRequest(in, s.Now())
	if err != nil {
		return nil, err
	}
	return measured.Read(ctx, s.Store, r)
}

// leafRequest reads what leaves are asked for; the service is among the matchers.
func leafRequest(in *api.LeavesRequest, now time.Time) (r measured.Request, err error) {
	family, ms, err := Selector(in.Match).Parse("match")
	if err != nil {
		return r, err
	}
	if family != "" {
		return r, query.Invalid("match", "leaves are requests; leave the family %s out of match", family)
	}
	for _, m := range ms {
		switch {
		case m.Name == series.LabelService && m.Type == labels.MatchEqual && r.Service == "":
			r.Service = m.Value
		case m.Name == series.LabelOperation && m.Type == labels.MatchEqual && r.Operation == "":
			r.Operation = m.Value
		default:
			r.Matchers = append(r.Matchers, m)
		}
	}
	if r.Service == "" {
		return r, query.Invalid("match", `leaves are the requests of one service; write match={service="solr"}`)
	}
	if r.End, err = Time(in.End).Parse("end", now, now); err != nil {
		return r, err
	}
	if r.Start, err = Time(in.Start).Parse("start", now, r.End.Add(-leafRange)); err != nil {
		return r, err
	}
	r.Classes = in.Classes
	r.Step, err = wholeSeconds("step", in.Step)
	return r, err
}

// simulate plays a file whose leaves are in this server's store.
func (s *server) simulate(ctx context.Context, r api.SimulateRequest) (*api.Simulation, error) {
	if strings.TrimSpace(r.File) == "" {
		return nil, query.Invalid("file", "there is nothing to simulate; %s", writeSimulate)
	}
	const name = "simulation"
	simulation, problems := spec.Read(name, []byte(r.File))
	if len(problems) > 0 {
		return nil, mistakes(problems)
	}
	if work := answer.Work(simulation); work > maxWork { // before the store is read
		if _, err := answer.Play(ctx, simulation, &measured.Measured{}, answer.Options{Most: maxWork}); err != nil {
			return nil, err
		}
	}
	now := s.Now()
	m, problems, err := measured.Load(ctx, simulation, measured.Sources{
		NoFile: "the server reads no files: name a service of its store, write the distribution with takes, or run tailscope simulate FILE where the file is",
		Store: func(ctx context.Context, f spec.From) (*api.Leaves, error) {
			r, err := leafRequest(leavesOf(f, now), now)
			if err != nil {
				return nil, err
			}
			return measured.Read(ctx, s.Store, r)
		},
	})
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		return nil, mistakes(problems)
	}
	wait, stop := context.WithTimeout(ctx, s.MaxWait)
	defer stop()
	select {
	case s.simulating <- struct{}{}:
		defer func() { <-s.simulating }()
	case <-wait.Done():
		return nil, errBusy
	}
	out, err := answer.Play(ctx, simulation, m, answer.Options{Now: s.Now, Most: maxWork, Command: "tailscope simulate FILE --server SERVER"})
	switch {
	case errors.Is(err, simulate.ErrInvalid):
		return nil, query.Invalid("file", "%v", err)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, query.Invalid("file", "the simulation took longer than the %s that a question may; write fewer queries or layouts, or run tailscope simulate FILE on a machine of your own", s.Timeout)
	}
	return out, err
}

// leavesOf is a source of a file as a question.
func leavesOf(f spec.From, now time.Time) *api.LeavesRequest {
	start, end := f.Range(now)
	return &api.LeavesRequest{Match: f.Selector(), Start: api.Time(start), End: api.Time(end), Step: time.Duration(f.Every)}
}

// mistakes is one error of all that is wrong with a file.
func mistakes[P error](problems []P) error {
	const most = 8
	lines := make([]string, 0, most+1)
	for i, p := range problems {
		if i == most {
			lines = append(lines, fmt.Sprintf("and %d more", len(problems)-most))
			break
		}
		lines = append(lines, p.Error())
	}
	return query.Invalid("file", "%s", strings.Join(lines, "\n"))
}
