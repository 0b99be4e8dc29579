// Package httpapi is the door for questions: the JSON API under /api/v1, its
// OpenAPI document at /openapi.json and Prometheus' query API under /prometheus.
//
// huma serves /api/v1 and nothing else, without its default hooks. Every error
// of it is {"error": {"code", "message", "field"}}; Prometheus' API speaks
// Prometheus' own envelope. Requests have a deadline, a share of memory and a
// turn: further ones wait a moment, then are told when to come back.
package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/klauspost/compress/gzhttp"

	"tailscope/api"
	"tailscope/internal/compare/changes"
	"tailscope/internal/experiment/logbook"
	"tailscope/internal/guard/check"
	"tailscope/internal/judge/marks"
	"tailscope/internal/judge/refresh"
	"tailscope/internal/observe/sla"
	"tailscope/internal/query"
	"tailscope/internal/seconds"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Options configures the API. Store is required; the zero value of every other
// field means its default.
type Options struct {
	Store store.Store
	Now   func() time.Time // default time.Now
	// Status is what /api/v1/status answers; Now and HasData are filled in per request.
	Status   api.StatusResponse
	Problems func() []api.Problem // why the server is degraded; nil if nobody watches
	Agents   func() []api.Agent   // those that send to the server; nil elsewhere
	Acts     func() []api.Act     // what the demo does; nil elsewhere
	// Cluster answers /api/v1/cluster; nil: this server alone.
	Cluster func(context.Context) *api.ClusterResponse
	// AcknowledgeDamage ends reports of damage; nil if nobody watches.
	AcknowledgeDamage func() (*api.DamageAcknowledged, error)
	Logger            *slog.Logger  // default discards
	Timeout           time.Duration // deadline of a request; default 30 s
	StatusWait        time.Duration // how long the status waits for what it reads of spans; default 500 ms
	MaxConcurrent     int           // questions worked on at once; default 4 per CPU, at least 8
	MaxWait           time.Duration // how long a question waits for its turn; default 5 s
	// MaxPromQL bounds the PromQL queries that run at once; default one less than
	// the number of CPUs, at least 1.
	MaxPromQL int
	// QuestionBytes is the memory that one question may hold, default 256 MiB.
	QuestionBytes int64
	// Memory is what all questions hold together; default twice QuestionBytes.
	Memory *store.Memory
	// TraceLink is the address of a trace in another system, with {trace_id} in
	// it; empty if there is none.
	TraceLink string
	// TraceKept is how long traces are kept, for the answer to who asks for one
	// that is not; 0 if not known.
	TraceKept time.Duration
	// TenantList makes cohorts, in place of shares of requests; nil if there is none.
	TenantList *series.TenantList
	// Seconds are the newest minutes in slots of one second, for comparisons that are
	// watched; nil if none are kept.
	Seconds *seconds.Ring
	// Changes finds what changed, in Store; default one whose searches end with their question.
	Changes *changes.Finder
	// Verdicts tells what changed at marks; nil if nobody judges them.
	Verdicts *marks.Judge
	// Sessions are those that are kept; a registry of the store's own if nil.
	Sessions *logbook.Registry
	// Checks guard values; nil if none are configured.
	Checks *check.Engine
}

func (o *Options) ensureDefaults() {
	o.StatusWait = cmp.Or(o.StatusWait, 500*time.Millisecond)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	if o.MaxConcurrent <= 0 {
		o.MaxConcurrent = max(8, 4*runtime.GOMAXPROCS(0))
	}
	if o.MaxWait <= 0 {
		o.MaxWait = 5 * time.Second
	}
	if o.QuestionBytes <= 0 {
		o.QuestionBytes = query.DefaultQuestionBytes
	}
	if o.Memory == nil {
		o.Memory = store.NewMemory(2 * o.QuestionBytes)
	}
	if o.MaxPromQL <= 0 {
		o.MaxPromQL = max(1, runtime.GOMAXPROCS(0)-1)
	}
	if o.Changes == nil {
		o.Changes = changes.NewFinder(o.Store)
	}
	if o.Sessions == nil {
		o.Sessions = logbook.New(logbook.Options{Store: o.Store, Now: o.Now, Logger: o.Logger})
	}
}

// maxBody bounds the body of a request: marks and the like are small. maxForm
// bounds a PromQL form, in which each byte of a query may take three.
const (
	maxBody = 1 << 20
	maxForm = 256 << 10
)

// maxReport bounds the report of a session, of which what is too long to keep
// is cut.
const maxReport = 8 << 20

func bodyBound(r *http.Request) int64 {
	if r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, sessionsPath+"/") {
		return maxReport
	}
	return maxBody
}

// New returns the handler of /api/v1/, /openapi.json and /prometheus/.
func New(o Options) http.Handler {
	o.ensureDefaults()
	o.Store = query.WithCohorts(o.Store, o.TenantList)
	s := &server{Options: o, targets: sla.NewTargets(o.Store), changes: o.Changes, tenantCache: query.NewTenantCache(tenantCacheBytes), live: newLive(), first: refresh.Cache[int64]{Size: 1, Fresh: firstKept}, computing: make(chan struct{}, maxComputing), simulating: make(chan struct{}, maxSimulating)}
	s.page = o.newTurns(o.MaxConcurrent, o.MaxWait, o.Memory)
	s.slow = o.newTurns(max(1, o.MaxConcurrent/2), o.MaxWait, o.Memory)
	// PromQL leaves memory for a question of the page, and waits longer: a
	// dashboard asks all its questions at once.
	s.promql = o.newTurns(o.MaxPromQL, o.Timeout/2, o.Memory.Part(max(o.Memory.Limit()-o.QuestionBytes, o.QuestionBytes)))
	s.routes = newRoutes()
	s.prom = query.NewPromEngine(o.Store, query.PromOptions{Now: o.Now, Logger: o.Logger, Timeout: o.Timeout, QuestionBytes: o.QuestionBytes})
	mux := http.NewServeMux()
	s.register(mux)
	outer := http.NewServeMux()
	outer.Handle("/api/", s.guardJSON(mux))
	outer.Handle("/openapi.json", mux)
	s.promRoutes(outer)
	compress, err := gzhttp.NewWrapper(gzhttp.MinSize(1400), gzhttp.CompressionLevel(1))
	if err != nil { // the options are constants
		panic(err)
	}
	return s.recoverPanics(compressAfar(compress(outer), outer))
}

type server struct {
	Options
	prom   *query.PromEngine
	routes *routes

	targets *sla.Targets
	changes *changes.Finder

	tenantCache *query.TenantCache
	live        *live
	first       refresh.Cache[int64]

	page, slow, promql *turns

	computing  chan struct{} // turns of what takes long with checks
	simulating chan struct{} // turns of simulations
}

// guardJSON refuses what huma would answer in words of its own: unknown paths,
// methods and parameters, parameters given twice, bodies that are too large.
//
// It also refuses bodies that do not say that they are JSON: a browser lets any
// page post other bodies to any address. Who asks is internal/listen's to check.
func (s *server) guardJSON(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), s.Timeout)
		defer cancel()
		r = r.WithContext(ctx)
		if e := s.routes.check(r); e != nil {
			e.write(w)
			return
		}
		turns := s.turnsOf(r)
		leave, err := turns.enter()
		if err != nil {
			fail(err).write(w)
			return
		}
		defer leave()
		s.hurry(w)
		if r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch {
			if given := r.Header.Get("Content-Type"); r.ContentLength != 0 && !isJSON(given) {
				e := fail(query.Invalid("body", "content type %q is not application/json: send the header Content-Type: application/json", given))
				e.status = http.StatusUnsupportedMediaType
				e.write(w)
				return
			}
			most := bodyBound(r)
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
			var tooLarge *http.MaxBytesError
			switch {
			case errors.As(err, &tooLarge):
				e := fail(query.Invalid("body", "the body is larger than %d MB", most>>20))
				e.status = http.StatusRequestEntityTooLarge
				e.write(w)
				return
			case err != nil:
				fail(query.Invalid("body", "the body could not be read: %v", err)).write(w)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		ctx, done, end, err := turns.take(ctx)
		if err != nil {
			fail(err).write(w)
			return
		}
		defer end()
		next.ServeHTTP(&turnWriter{w, done}, r.WithContext(ctx))
	})
}

func (s *server) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler {
				panic(v)
			}
			s.Logger.Error("request panicked", "path", r.URL.Path, "query", r.URL.RawQuery, "panic", v, "stack", string(debug.Stack()))
			fail(&query.Error{Code: query.CodeInternal, Message: "internal error; the server's log says more"}).write(w)
		}()
		next.ServeHTTP(w, r)
	})
}

// routes knows which methods and parameters each path takes.
type routes struct {
	params map[string]map[string][]string // path with {id} for what varies, method, names of query parameters
}

func newRoutes() *routes { return &routes{params: map[string]map[string][]string{}} }

func (rs *routes) add(method, path string, params []string) {
	if rs.params[path] == nil {
		rs.params[path] = map[string][]string{}
	}
	rs.params[path][method] = params
}

func (rs *routes) check(r *http.Request) *apiError {
	path := r.URL.Path
	methods := rs.params[path]
	// Perhaps a path with an id, at its end or before its last word.
	words := strings.Split(path, "/")
	for i := len(words) - 1; methods == nil && i >= max(1, len(words)-2); i-- {
		if words[i] != "" {
			methods = rs.params[strings.Join(slices.Concat(words[:i], []string{"{id}"}, words[i+1:]), "/")]
		}
	}
	if methods == nil {
		var known []string
		for p := range rs.params {
			known = append(known, p)
		}
		return fail(&query.Error{Code: query.CodeNotFound, Message: "there is no " + path + "; " + query.Suggest(path, known)})
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	known, ok := methods[method]
	if !ok {
		var allowed []string
		for m := range methods {
			allowed = append(allowed, m)
		}
		slices.Sort(allowed)
		e := fail(query.Invalid("", "%s takes %s, not %s", path, strings.Join(allowed, " or "), r.Method))
		e.status = http.StatusMethodNotAllowed
		return e
	}
	values, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		return fail(err)
	}
	for name, vs := range values {
		if !slices.Contains(known, name) {
			if len(known) == 0 {
				return fail(query.Invalid(name, "%s takes no parameters", path))
			}
			return fail(query.Invalid(name, "there is no parameter %q; %s", name, query.Suggest(name, known)))
		}
		if len(vs) > 1 {
			return fail(query.Invalid(name, "%s is given %d times; give it once", name, len(vs)))
		}
	}
	return nil
}

// marshalProblem writes an error of huma's in the one form that is ours.
func marshalProblem(w io.Writer, v any) error {
	e := &query.Error{Code: query.CodeInvalid, Message: "the request cannot be read"}
	if m, ok := v.(*huma.ErrorModel); ok {
		if m.Status >= http.StatusInternalServerError {
			e.Code = query.CodeInternal
		}
		e.Message = m.Detail
		for _, d := range m.Errors {
			e.Message += ": " + d.Error()
		}
	}
	return json.NewEncoder(w).Encode(fail(e))
}
