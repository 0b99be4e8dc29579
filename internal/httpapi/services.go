package httpapi

import (
	"context"
	"fmt"
	"time"

	"tailscope/api"
	"tailscope/internal/guard/check"
	"tailscope/internal/judge/refresh"
	"tailscope/internal/observe/sla"
	"tailscope/internal/query"
	"tailscope/internal/series"
)

const (
	// sharedFor is how long an answer with strips, which a page that is live asks for again
	// and again, is shared between those who look at it.
	sharedFor = time.Second
	// sharedTimes is for how many times as long as it took an answer is shared: the answers
	// of many services then take no more than a twentieth of a processor.
	sharedTimes = 20
	// presentFor is how long after the minute of a service that is judged, in seconds, the
	// present state of its checks is part of its own.
	presentFor = 300
	// mostFailing bounds the failing checks that services are judged by, the worst first.
	mostFailing = 1000
)

// live is what the list of services keeps between questions.
type live struct {
	usual  query.UsualCache
	past   query.PastCache
	whom   query.WhomCache
	shared refresh.Cache[api.ServicesResponse]
}

func newLive() *live {
	return &live{shared: refresh.Cache[api.ServicesResponse]{Size: 16, Fresh: sharedFor, Times: sharedTimes}}
}

func (s *server) services(ctx context.Context, in *api.ServicesRequest) (*api.ServicesResponse, error) {
	sel, err := s.selection(in.Selection)
	if err != nil {
		return nil, err
	}
	r := query.ServicesRequest{
		Selection: sel, ApdexT: in.ApdexT, Now: s.Now(), Newest: s.Seconds, Rows: in.Rows, Names: in.Names,
		Usual: &s.live.usual, Whom: &s.live.whom, List: s.TenantList,
	}
	if in.Rows > 0 {
		r.Past = &s.live.past
	}
	if r.Grid, err = grid(in.Grid); err != nil {
		return nil, err
	}
	if r.Quantiles, err = parseQuantiles(in.Quantiles); err != nil {
		return nil, err
	}
	set, err := s.targets.All(ctx)
	if err != nil {
		return nil, err
	}
	r.Target = func(service string) (float64, bool) {
		t, from := set.T(service, "")
		return t, from == sla.FromService
	}
	if in.Rows == 0 || in.Names {
		return s.answerServices(ctx, r)
	}
	key := fmt.Sprint(*set.Response(), "\x00", in.Match, "\x00", sel.Start.UnixNano(), sel.End.UnixNano(), r.Grid, r.Quantiles, r.ApdexT, r.Rows)
	return s.live.shared.Get(ctx, key, r.Now, func() (*api.ServicesResponse, error) { return s.answerServices(ctx, r) })
}

func (s *server) answerServices(ctx context.Context, r query.ServicesRequest) (*api.ServicesResponse, error) {
	out, err := query.Services(ctx, s.Store, r)
	if err != nil || r.Names {
		return out, err
	}
	out.Whole = s.whole(r.Selection, out.End)
	if err := s.judgeByChecks(ctx, out.Services, r.Now); err != nil {
		return nil, err
	}
	return out, s.latestMarks(ctx, out.Services, r.Start, r.End)
}

// judgeByChecks gives services of which now is the present the states of their failing
// checks: worse of a critical one, odd of any other.
func (s *server) judgeByChecks(ctx context.Context, services []api.Service, now time.Time) error {
	if s.Checks == nil {
		return nil
	}
	failing, err := s.Checks.List(ctx, check.ListRequest{State: "bad", Limit: mostFailing})
	if err != nil {
		return err
	}
	for _, c := range failing.Checks {
		service, environment := c.Labels[series.LabelService], c.Labels[series.LabelEnvironment]
		for i := range services {
			of := &services[i]
			if of.Name != service || environment != "" && of.Environment != environment || of.Now == nil || now.Unix()-of.Now.End > presentFor {
				continue
			}
			state := api.Odd
			if c.State == "CRITICAL" {
				state = api.Worse
			}
			query.Judge(of, state, "check "+c.ID+": "+c.Text)
		}
	}
	return nil
}
