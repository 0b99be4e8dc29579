package accesslog

import (
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
	"time"

	"tailscope/api"
)

// ImportPath is where lines are posted to.
const ImportPath = "/api/v1/import/access-log"

// Values is c as parameters of an import's address; ParseValues turns it back.
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

// ParseValues reads the parameters of an import.
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
			return c, since, false, fmt.Errorf("since: %q is no time: write one as in RFC 3339, such as 2026-03-01T12:00:00Z", s)
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

// Door takes imports over HTTP.
type Door struct {
	in     *Ingester
	mu     sync.Mutex
	closed bool
	cancel map[*context.CancelCauseFunc]struct{}
	under  sync.WaitGroup
	origin *http.CrossOriginProtection
}

// NewDoor returns the handler of ImportPath. It must be closed before what the
// Ingester writes to is.
func NewDoor(in *Ingester) *Door {
	return &Door{in: in, cancel: map[*context.CancelCauseFunc]struct{}{}, origin: http.NewCrossOriginProtection()}
}

var errStopping = errors.New("the server is stopping; import the same file again when it is back, and it goes on where it was")

// Close ends imports under way, after the block that each is at, and refuses
// further ones.
func (d *Door) Close() {
	d.mu.Lock()
	d.closed = true
	for c := range d.cancel {
		(*c)(errStopping)
	}
	d.mu.Unlock()
	d.under.Wait()
}

// maxImports is how many imports may be under way. One alone takes a core and
// some MiB.
const maxImports = 4

var errMany = fmt.Errorf("%d imports are under way, and no more are taken at a time; try again when one has ended", maxImports)

// enter counts an import in; its context ends when the door is closed. The
// error is errStopping or errMany.
func (d *Door) enter(ctx context.Context) (context.Context, func(), error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ctx, nil, errStopping
	}
	if len(d.cancel) >= maxImports {
		return ctx, nil, errMany
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

// patience is how long a sender may pause.
const patience = time.Minute

// ServeHTTP takes the lines of one log.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, "invalid", "", ImportPath+" takes POST, not "+r.Method)
		return
	}
	if err := d.origin.Check(r); err != nil {
		refuse(w, http.StatusForbidden, "invalid", "", "a page of another site asked for this; use tailscope import access-log, or another client")
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
	if err != nil {
		w.Header().Set("Retry-After", "10")
		refuse(w, http.StatusServiceUnavailable, "unavailable", "", err.Error())
		return
	}
	defer leave()
	body := &paced{ctx: ctx, r: r.Body, w: http.NewResponseController(w)}
	defer context.AfterFunc(ctx, body.interrupt)()
	out, err := d.in.Import(ctx, body, Import{Source: src, Since: since, Again: again})
	_ = body.w.SetWriteDeadline(time.Now().Add(patience))
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out)
	case errors.Is(err, ErrAlready), errors.Is(err, ErrBusy):
		refuse(w, http.StatusConflict, "conflict", "", err.Error())
	case errors.Is(err, errStopping):
		w.Header().Set("Retry-After", "10")
		refuse(w, http.StatusServiceUnavailable, "unavailable", "", err.Error())
	case errors.As(err, &formatError{}):
		refuse(w, http.StatusBadRequest, "invalid", "format", err.Error())
	case body.err != nil:
		refuse(w, http.StatusBadRequest, "invalid", "body", fmt.Sprintf("the body could not be read to its end: %v; import the same file again, and it goes on where it was", body.err))
	default:
		d.in.o.Logger.Error("import of an access log failed", "service", c.Service, "error", err)
		refuse(w, http.StatusInternalServerError, "internal", "", "the lines could not be stored; the server's log says more. Import the same file again, and it goes on where it was")
	}
}

// paced reads a body with a deadline for each piece instead of one for all.
type paced struct {
	ctx context.Context
	r   io.Reader
	w   *http.ResponseController
	err error // other than the end
	mu  sync.Mutex
}

// interrupt ends a Read under way and all further ones; ctx is done.
func (p *paced) interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.w.SetReadDeadline(time.Unix(1, 0))
}

func (p *paced) wait() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.ctx.Err(); err != nil {
		return err
	}
	// Not every writer has deadlines; those without need none.
	_ = p.w.SetReadDeadline(time.Now().Add(patience))
	return nil
}

func (p *paced) Read(b []byte) (int, error) {
	if err := p.wait(); err != nil {
		return 0, err
	}
	n, err := p.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		p.err = err
	}
	return n, err
}

func refuse(w http.ResponseWriter, status int, code, field, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(api.Error{Error: api.ErrorDetail{Code: code, Message: message, Field: field}})
}
