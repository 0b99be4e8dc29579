package httpapi

import (
	"context"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/api"
	"tailscope/internal/query"
)

type namedCheck struct {
	ID string `query:"id" doc:"of the check, as the list of checks has it"`
}

type acknowledgeInput struct {
	ID      string `query:"id" doc:"of the check, as the list of checks has it"`
	RawBody []byte `contentType:"application/json"`
}

type unacknowledgeInput struct {
	ID   string `query:"id" doc:"of the check, as the list of checks has it"`
	User string `query:"user" doc:"who takes it back"`
}

type checkBody struct {
	RawBody []byte `contentType:"application/json"`
}

type incidentID struct {
	ID string `path:"id" doc:"of a marked incident, as the list of incidents has it"`
}

type maintenanceID struct {
	ID string `path:"id" doc:"of a window that was posted, as the list of them has it"`
}

const (
	writeAck         = `write {"user": "ann", "comment": "disk ordered"}, and "until" in Unix seconds if it should end by itself`
	writeExpression  = `write {"expression": "avg({check=\"orders\"}[-1H:-0M])"}`
	writeBacktest    = `write {"check": "orders", "threshold": {"must": "<", "of": "100", "critical": "10%"}}`
	writeIncident    = `write {"name": "disk full", "start": 1760000000, "end": 1760003600}`
	writeMaintenance = `write {"name": "upgrade", "checks": ["orders"], "end": 1760003600}`

	// maxCheckText bounds a name or a comment, and maxExpression an expression,
	// in bytes.
	maxCheckText  = 4096
	maxExpression = 16 << 10

	// maxComputing bounds how many evaluate, backtest or run a check at once:
	// others would wait for the engine, and hold the turns of all questions.
	maxComputing = 2
)

func (s *server) registerCheckChanges(a huma.API) {
	change(s, a, http.MethodPost, checkPath+"/acknowledge", "post-check-acknowledge", "Take care of a check that is not OK", http.StatusOK, s.acknowledge)
	change(s, a, http.MethodDelete, checkPath+"/acknowledge", "delete-check-acknowledge", "Take that back", http.StatusOK,
		func(ctx context.Context, in *unacknowledgeInput) (*api.Check, error) {
			if err := s.named(in.ID); err != nil {
				return nil, err
			}
			return s.Checks.Unacknowledge(ctx, in.ID, in.User)
		})
	change(s, a, http.MethodPost, checkPath+"/run", "post-check-run", "Run a check now", http.StatusOK,
		func(ctx context.Context, in *namedCheck) (*api.Check, error) {
			if err := s.named(in.ID); err != nil {
				return nil, err
			}
			return compute(ctx, s, func(ctx context.Context) (*api.Check, error) { return s.Checks.RunNow(ctx, in.ID) })
		})
	change(s, a, http.MethodPost, checksPath+"/evaluate", "post-checks-evaluate", "What an expression comes to", http.StatusOK, s.evaluate)
	change(s, a, http.MethodPost, checksPath+"/backtest", "post-checks-backtest", "What a threshold would have done", http.StatusOK, s.backtest)
	change(s, a, http.MethodPost, incidentsPath, "post-incident", "Say that there was an incident", http.StatusCreated, s.markIncident)
	remove(s, a, incidentsPath+"/{id}", "delete-incident", "Forget an incident that was marked", func(ctx context.Context, in *incidentID) error {
		if s.Checks == nil {
			return noChecks
		}
		return s.Checks.DeleteIncident(ctx, in.ID)
	})
	change(s, a, http.MethodPost, maintenancePath, "post-maintenance", "Tell nobody for a while", http.StatusCreated, s.addMaintenance)
	remove(s, a, maintenancePath+"/{id}", "delete-maintenance", "End a window that was posted", func(ctx context.Context, in *maintenanceID) error {
		if s.Checks == nil {
			return noChecks
		}
		return s.Checks.EndMaintenance(ctx, in.ID)
	})
	paths := a.OpenAPI().Paths
	describeBody[api.Ack](a, paths[checkPath+"/acknowledge"].Post, "Ack")
	describeBody[api.CheckEvaluate](a, paths[checksPath+"/evaluate"].Post, "CheckEvaluate")
	describeBody[api.CheckBacktest](a, paths[checksPath+"/backtest"].Post, "CheckBacktest")
	describeBody[api.MarkedIncident](a, paths[incidentsPath].Post, "MarkedIncident")
	describeBody[api.Maintenance](a, paths[maintenancePath].Post, "Maintenance")
}

func (s *server) acknowledge(ctx context.Context, in *acknowledgeInput) (*api.Check, error) {
	var ack api.Ack
	if err := decodeStrict(in.RawBody, &ack, "acknowledgement", writeAck); err != nil {
		return nil, err
	}
	ack.User = strings.TrimSpace(ack.User)
	if ack.User == "" {
		return nil, query.Invalid("user", "nobody takes care; %s", writeAck)
	}
	if err := shortEnough(maxCheckText, "user", ack.User, "comment", ack.Comment); err != nil {
		return nil, err
	}
	if given(ack.Time) {
		return nil, query.Invalid("time", "the server sets the time; leave it out")
	}
	if given(ack.Until) {
		if err := sound("until", ack.Until); err != nil {
			return nil, err
		}
		if float64(ack.Until) <= float64(api.UnixTime(s.Now())) {
			return nil, query.Invalid("until", "until is not in the future; write a later time, or leave it out")
		}
	}
	if err := s.named(in.ID); err != nil {
		return nil, err
	}
	return s.Checks.Acknowledge(ctx, in.ID, ack)
}

func (s *server) evaluate(ctx context.Context, in *checkBody) (*api.CheckEvaluateResponse, error) {
	var r api.CheckEvaluate
	if err := decodeStrict(in.RawBody, &r, "question", writeExpression); err != nil {
		return nil, err
	}
	if strings.TrimSpace(r.Expression) == "" {
		return nil, query.Invalid("expression", "there is no expression; %s", writeExpression)
	}
	if err := shortEnough(maxExpression, "expression", r.Expression, "check", r.Check); err != nil {
		return nil, err
	}
	if err := soundRange(r.Start, r.End); err != nil {
		return nil, err
	}
	if err := sound("at", r.At); err != nil {
		return nil, err
	}
	if err := length("step", r.Step); err != nil {
		return nil, err
	}
	if err := length("tolerance", r.Tolerance); err != nil {
		return nil, err
	}
	return compute(ctx, s, func(ctx context.Context) (*api.CheckEvaluateResponse, error) { return s.Checks.Evaluate(ctx, r) })
}

func (s *server) backtest(ctx context.Context, in *checkBody) (*api.CheckBacktestResponse, error) {
	var r api.CheckBacktest
	if err := decodeStrict(in.RawBody, &r, "backtest", writeBacktest); err != nil {
		return nil, err
	}
	if r.Check == "" && strings.TrimSpace(r.Value) == "" {
		return nil, query.Invalid("check", "neither a check nor a value is named; %s", writeBacktest)
	}
	if err := shortEnough(maxExpression, "value", r.Value, "check", r.Check); err != nil {
		return nil, err
	}
	if t := r.Threshold; t != nil {
		if err := shortEnough(maxExpression, "threshold.of", t.Of); err != nil {
			return nil, err
		}
	}
	if err := soundRange(r.Start, r.End); err != nil {
		return nil, err
	}
	if err := length("every", r.Every); err != nil {
		return nil, err
	}
	return compute(ctx, s, func(ctx context.Context) (*api.CheckBacktestResponse, error) { return s.Checks.Backtest(ctx, r) })
}

// compute runs what takes long, few at once. The engine bounds their time.
func compute[O any](ctx context.Context, s *server, f func(context.Context) (*O, error)) (*O, error) {
	if s.Checks == nil {
		return nil, noChecks
	}
	wait, stop := context.WithTimeout(ctx, s.MaxWait)
	defer stop()
	select {
	case s.computing <- struct{}{}:
		defer func() { <-s.computing }()
	case <-wait.Done():
		return nil, errBusy
	}
	return f(ctx)
}

func (s *server) markIncident(ctx context.Context, in *checkBody) (*api.Incident, error) {
	var m api.MarkedIncident
	if err := decodeStrict(in.RawBody, &m, "incident", writeIncident); err != nil {
		return nil, err
	}
	m.Name = strings.TrimSpace(m.Name)
	if m.Name == "" {
		return nil, query.Invalid("name", "an incident needs a name; %s", writeIncident)
	}
	if err := shortEnough(maxCheckText, "name", m.Name, "service", m.Service, "check", m.Check); err != nil {
		return nil, err
	}
	for field, at := range map[string]api.Float{"start": m.Start, "end": m.End} {
		if !given(at) {
			return nil, query.Invalid(field, "an incident needs a start and an end; %s", writeIncident)
		}
	}
	if err := soundRange(m.Start, m.End); err != nil {
		return nil, err
	}
	if s.Checks == nil {
		return nil, noChecks
	}
	return s.Checks.MarkIncident(ctx, m)
}

func (s *server) addMaintenance(ctx context.Context, in *checkBody) (*api.Maintenance, error) {
	var m api.Maintenance
	if err := decodeStrict(in.RawBody, &m, "window", writeMaintenance); err != nil {
		return nil, err
	}
	m.Name = strings.TrimSpace(m.Name)
	switch {
	case m.Name == "":
		return nil, query.Invalid("name", "a window needs a name; %s", writeMaintenance)
	case m.ID != "":
		return nil, query.Invalid("id", "the server gives a window its id; leave it out")
	case m.Fixed || m.Active || m.When != "":
		return nil, query.Invalid("when", "active, fixed and when are answered, not asked; repeating windows are written in files of checks")
	case !given(m.End):
		return nil, query.Invalid("end", "a window needs an end; %s", writeMaintenance)
	}
	texts := []string{"name", m.Name, "match", m.Match, "user", m.User}
	for _, c := range m.Checks {
		texts = append(texts, "checks", c)
	}
	if err := shortEnough(maxCheckText, texts...); err != nil {
		return nil, err
	}
	if m.Match != "" {
		if _, _, err := Selector(m.Match).Parse("match"); err != nil {
			return nil, err
		}
	}
	if !given(m.Start) {
		m.Start = api.UnixTime(s.Now())
	}
	if err := soundRange(m.Start, m.End); err != nil {
		return nil, err
	}
	if float64(m.End) <= float64(api.UnixTime(s.Now())) {
		return nil, query.Invalid("end", "the window ends before now; write a later end")
	}
	if s.Checks == nil {
		return nil, noChecks
	}
	return s.Checks.AddMaintenance(ctx, m)
}

// given says whether a number stands in the body: 0 and null are none.
func given(f api.Float) bool { return f != 0 && !math.IsNaN(float64(f)) }

// sound refuses times that no clock shows; one that is not given is sound.
func sound(field string, at api.Float) error {
	if given(at) && (at < 0 || at >= latestMark) {
		return query.Invalid(field, "%s is not a time of this age; write Unix seconds such as 1760000000", field)
	}
	return nil
}

func soundRange(start, end api.Float) error {
	if err := sound("start", start); err != nil {
		return err
	}
	if err := sound("end", end); err != nil {
		return err
	}
	if given(start) && given(end) && end <= start {
		return query.Invalid("end", "end is not after start; write a later end or an earlier start")
	}
	return nil
}

// length refuses what is not a length of time; one that is not given is.
func length(field string, v api.Float) error {
	if v < 0 || float64(v) > (10*366*24*time.Hour).Seconds() {
		return query.Invalid(field, "%s is not a length of time; write seconds, such as 60", field)
	}
	return nil
}

// shortEnough takes pairs of a field's name and its text.
func shortEnough(most int, pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if len(pairs[i+1]) > most {
			return query.Invalid(pairs[i], "%s is longer than %d bytes; shorten it", pairs[i], most)
		}
	}
	return nil
}
