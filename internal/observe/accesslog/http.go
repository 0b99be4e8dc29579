package accesslog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/api"
	"tailscope/internal/listen"
)

// ImportPath is the path that lines are posted to.
const ImportPath = "/api/v1/import/access-log"

// Values returns c as URL parameters of an import; ParseValues is its inverse.
func (c Config) Values() url.Values {
	v := url.Values{}
	for _, p := range []struct{ name, value string }{
		{"service", c.Service}, {"format", c.Format}, {"tenant", c.Tenant}, {"version", c.Version}, {"variant", c.Variant},
	} {
		if p.value != "" {
			v.Set(p.name, p.value)
		}
	}
	if len(c.Routes) > 0 {
		v["route"] = c.Routes
	}
	return v
}

// ParseValues parses the URL parameters of an import.
func ParseValues(v url.Values) (c Config, since time.Time, again bool, err error) {
	known := []string{"service", "format", "tenant", "version", "variant", "route", "since", "again"}
	for name, values := range v {
		if !slices.Contains(known, name) {
			return c, since, false, fmt.Errorf("there is no parameter %q; there are %s", name, strings.Join(known, ", "))
		}
		if len(values) > 1 && name != "route" {
			return c, since, false, fmt.Errorf("%s is given %d times; give it once", name, len(values))
		}
	}
	c = Config{
		Service: v.Get("service"), Format: v.Get("format"), Tenant: v.Get("tenant"),
		Version: v.Get("version"), Variant: v.Get("variant"), Routes: v["route"],
	}
	if s := v.Get("since"); s != "" {
		if since, err = time.Parse(time.RFC3339, s); err != nil {
			return c, since, false, fmt.Errorf("since: %q is not a time: write one as in RFC 3339, such as 2026-03-01T12:00:00Z", s)
		}
	}
	switch s := v.Get("again"); s {
	case "", "false":
	case "true":
		again = true
	default:
		return c, since, false, fmt.Errorf("again: %q is neither true nor false", s)
	}
	return c, since, again, nil
}

// ImportHandler serves imports over HTTP. An import takes a slot once the beginning of
// its body has arrived, and keeps it while the rest arrives at a minimum rate.
type ImportHandler struct {
	in       *Ingester
	arriving listen.Bodies // whose beginning has not arrived yet
	streams  listen.Bodies // of imports that have a slot
	busy     atomic.Uint64

	mu     sync.Mutex
	begun  bool // the sweepers of bodies run
	closed chan struct{}
	cancel map[*context.CancelCauseFunc]struct{}
	slots  int
	under  sync.WaitGroup
}

// NewImportHandler returns the handler of ImportPath. Close it before the sink of the
// Ingester.
func NewImportHandler(in *Ingester) *ImportHandler {
	d := &ImportHandler{in: in, closed: make(chan struct{}), cancel: map[*context.CancelCauseFunc]struct{}{}}
	d.arriving.Grace, d.streams.Grace = grace, grace
	d.streams.Max = maxImports // none is cut off for another: that would gain nothing
	return d
}

// maxImports bounds the imports in progress, one of which takes a core and some MiB.
// Each has a slot once firstBytes of it, or all of it, have arrived, and may pause for
// grace.
const (
	maxImports = 4
	firstBytes = 64 << 10
	grace      = 20 * time.Second
)

// ImportStats counts imports that were refused, or cut off, for the sake of others.
type ImportStats struct {
	Arriving int    // at present: imports whose beginning has not arrived yet
	Slow     uint64 // the body came too slowly
	Busy     uint64 // too many were arriving, or in progress
}

// Stats returns the counts so far.
func (d *ImportHandler) Stats() ImportStats {
	a, s := d.arriving.Stats(), d.streams.Stats()
	return ImportStats{a.Arriving, a.Slow + s.Slow, d.busy.Load()}
}

var (
	errStopping = errors.New("the server is stopping; import the same file again when it is back, and it goes on where it was")
	errMany     = fmt.Errorf("%d imports are in progress, the most at a time: try again when one has ended", maxImports)
	errArriving = errors.New("too many imports are arriving; try again in a moment")
	errSlow     = errors.New("the lines came too slowly; import the same file again, and it goes on where it was")
)

// Close ends imports in progress, after the block that each is at, and refuses new ones.
func (d *ImportHandler) Close() {
	d.mu.Lock()
	select {
	case <-d.closed:
	default:
		close(d.closed)
	}
	for c := range d.cancel {
		(*c)(errStopping)
	}
	d.mu.Unlock()
	d.under.Wait()
}

// enter enters a request; its context ends when the handler is closed.
func (d *ImportHandler) enter(ctx context.Context) (context.Context, func(), error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.closed:
		return ctx, nil, errStopping
	default:
	}
	if !d.begun {
		d.begun = true
		d.under.Go(func() { d.arriving.Run(d.closed) })
		d.under.Go(func() { d.streams.Run(d.closed) })
	}
	ctx, cancel := context.WithCancelCause(ctx)
	d.cancel[&cancel] = struct{}{}
	d.under.Add(1)
	return ctx, func() {
		d.mu.Lock()
		delete(d.cancel, &cancel)
		d.mu.Unlock()
		cancel(nil)
		d.under.Done()
	}, nil
}

// begin takes a slot, which end releases.
func (d *ImportHandler) begin() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.slots >= maxImports {
		return errMany
	}
	d.slots++
	return nil
}

func (d *ImportHandler) end() {
	d.mu.Lock()
	d.slots--
	d.mu.Unlock()
}

// importBody imports the body of a request.
func (d *ImportHandler) importBody(ctx context.Context, w http.ResponseWriter, r *http.Request, what Import) (*api.AccessLogImport, error) {
	off := listen.Interrupt(w)
	// The import's own bounds replace the listener's bound on a whole request.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	defer context.AfterFunc(ctx, off)()
	arriving := d.arriving.Begin(off)
	if arriving == nil {
		return nil, errArriving
	}
	defer arriving.End()
	var first bytes.Buffer
	_, err := io.CopyN(&first, arriving.Reader(r.Body), firstBytes)
	whole := err == io.EOF
	if err != nil && !whole {
		return nil, bodyError(arriving, err)
	}
	arriving.Arrived()
	if err := d.begin(); err != nil {
		return nil, err
	}
	defer d.end()
	if whole {
		return d.in.Import(ctx, &first, what)
	}
	stream := d.streams.Begin(off)
	defer stream.End()
	body := &failing{Reader: stream.Stream(r.Body)}
	out, err := d.in.Import(ctx, io.MultiReader(&first, body), what)
	if err != nil && body.err != nil {
		err = bodyError(stream, body.err)
	}
	return out, err
}

// failing records the error of its reader, except for io.EOF.
type failing struct {
	io.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

// bodyError returns why a body could not be read.
func bodyError(b *listen.Body, err error) error {
	switch b.End() {
	case listen.TooSlow:
		return errSlow
	case listen.Crowded:
		return errArriving
	}
	if err == listen.ErrCutOff { // for lack of memory
		return errArriving
	}
	return brokenError{err}
}

type brokenError struct{ error }

func (e brokenError) Unwrap() error { return e.error }

// ServeHTTP imports the lines of one log.
func (d *ImportHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, "invalid", "", ImportPath+" takes POST, not "+r.Method)
		return
	}
	c, since, again, err := ParseValues(r.URL.Query())
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid", "", err.Error())
		return
	}
	src, err := c.Compile()
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid", "", err.Error())
		return
	}
	ctx, leave, err := d.enter(r.Context())
	var out *api.AccessLogImport
	if err == nil {
		defer leave()
		out, err = d.importBody(ctx, w, r, Import{Source: src, Since: since, Again: again})
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute))
	}
	if err != nil && context.Cause(ctx) == errStopping { // the cause of any other error
		err = errStopping
	}
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out)
	case errors.Is(err, ErrAlready), errors.Is(err, ErrBusy):
		refuse(w, http.StatusConflict, "conflict", "", err.Error())
	case errors.Is(err, errMany), errors.Is(err, errArriving):
		d.busy.Add(1)
		fallthrough
	case errors.Is(err, errStopping):
		w.Header().Set("Retry-After", "10")
		refuse(w, http.StatusServiceUnavailable, "unavailable", "", err.Error())
	case errors.Is(err, errSlow):
		refuse(w, http.StatusRequestTimeout, "invalid", "body", err.Error())
	case errors.As(err, &formatError{}):
		refuse(w, http.StatusBadRequest, "invalid", "format", err.Error())
	case errors.As(err, &brokenError{}):
		refuse(w, http.StatusBadRequest, "invalid", "body", fmt.Sprintf("the body could not be read to its end: %v; import the same file again, and it goes on where it was", err))
	default:
		d.in.o.Logger.Error("import of an access log failed", "service", c.Service, "error", err)
		refuse(w, http.StatusInternalServerError, "internal", "", "the lines could not be stored; the server's log says more. Import the same file again, and it goes on where it was")
	}
}

func refuse(w http.ResponseWriter, status int, code, field, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(api.Error{Error: api.ErrorDetail{Code: code, Message: message, Field: field}})
}
