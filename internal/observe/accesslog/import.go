package accesslog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"tailscope/api"
)

// Import describes a stream of lines.
type Import struct {
	Source *Source
	Since  time.Time // earlier lines are skipped; zero: none
	Again  bool      // count it although it was imported before
	Dry    bool      // count nothing
}

// ErrAlready reports that a file was imported before and has not grown.
var ErrAlready = errors.New("this file was imported before, and has not grown since")

// ErrBusy reports that the same file is being imported at present.
var ErrBusy = errors.New("this file is being imported by somebody else right now")

// formatError is a fault of the format, which the sender can correct.
type formatError struct{ error }

func (e formatError) Unwrap() error { return e.error }

// fingerprintBytes bounds the beginning of a file by which it is recognised.
const fingerprintBytes = 4 << 10

// imported is the saved state of an imported file.
type imported struct {
	Head   int    `json:"head"` // bytes hashed
	Offset int64  `json:"offset"`
	Lines  uint64 `json:"lines"`
	At     int64  `json:"at"` // Unix seconds
}

func importKey(service string, head []byte) string {
	h := xxh3.Hash128(head).Bytes()
	return fmt.Sprintf("import/%s\x00%x", service, h)
}

// Import ingests lines to the end of r and returns the result. It reads no faster than
// they are ingested.
//
// It saves its offset with every block: when r breaks off, or the server stops, a second
// import of the same file continues there, and one of a file that has grown continues at
// its old end. It skips what a Follower has read of the file. The error wraps ErrAlready
// or ErrBusy, is ctx's or r's, or describes a fault of the format; the response counts
// what was ingested nevertheless.
func (in *Ingester) Import(ctx context.Context, r io.Reader, what Import) (*api.AccessLogImport, error) {
	b := newBlocks(r, 0, blockBytes)
	head := b.head(blockBytes)
	if b.err != nil && !errors.Is(b.err, io.EOF) {
		return nil, b.err
	}
	src, err := what.Source.ForLines(head)
	if err != nil {
		return nil, formatError{err}
	}
	key, mark, err := in.recognise(ctx, src.Service, head)
	if err != nil {
		return nil, err
	}
	if !what.Dry {
		if !in.begin(key) {
			return nil, ErrBusy
		}
		defer in.end(key)
		// Another import may have ended just before.
		if _, mark, err = in.recognise(ctx, src.Service, head); err != nil {
			return nil, err
		}
	}
	var skip span
	if what.Again {
		mark.Offset, mark.Lines = 0, 0
	} else if skip, err = in.followedSpan(ctx, src.Service, head); err != nil {
		return nil, err
	}
	f, err := in.feed(ctx, src, xxh3.Hash(head[:mark.Head]), key)
	if err != nil {
		return nil, err
	}
	defer in.release(f.svc)
	defer f.svc.leaveSequence(key)
	f.dry = what.Dry
	if !what.Since.IsZero() {
		f.since = what.Since.UnixNano()
	}
	f.tally.Lines = mark.Lines // so that lines are numbered as in the file
	if mark.Offset == 0 {
		f.learn(wholeLines(head))
	}
	resumed, passed := mark.Offset, int64(0)
	take := func(lines []byte, offset int64) error {
		if len(lines) == 0 {
			return nil
		}
		if err := f.ingestBlock(ctx, lines, offset); err != nil {
			return err
		}
		mark.Offset, mark.Lines = offset+int64(len(lines)), f.tally.Lines
		if what.Dry {
			return nil
		}
		// What was ingested is saved even if the caller has gone.
		return in.remember(context.WithoutCancel(ctx), f.svc, map[string]any{key: mark})
	}
	for {
		block, offset, ok := b.next()
		if !ok {
			break
		}
		if end := offset + int64(len(block)); end <= mark.Offset {
			continue
		} else if offset < mark.Offset {
			block, offset = block[mark.Offset-offset:], mark.Offset
		}
		if block[len(block)-1] != '\n' && errors.Is(b.err, io.EOF) {
			block = f.cutUnfinished(block)
		}
		before, within, after := skip.split(block, offset)
		if err = take(before, offset); err != nil {
			break
		}
		passed += int64(len(within))
		f.tally.Lines += uint64(bytes.Count(within, newline))
		if err = take(after, offset+int64(len(before)+len(within))); err != nil {
			break
		}
		// What was skipped need not be read again either.
		mark.Offset, mark.Lines = offset+int64(len(block)), f.tally.Lines
	}
	if err == nil && passed > 0 && !what.Dry {
		err = in.remember(context.WithoutCancel(ctx), f.svc, map[string]any{key: mark})
	}
	if err == nil && !errors.Is(b.err, io.EOF) {
		err = b.err
	}
	out := f.report(resumed, mark.Offset)
	if out.Untimed > 0 && !what.Dry {
		in.o.Logger.Warn("an access log without durations was imported: only its requests and their sizes were counted; log $request_time too",
			"service", src.Service, "format", out.Format, "requests", out.Untimed, "log_format", Directive)
	}
	out.Followed = passed
	if err == nil && resumed > 0 && resumed == mark.Offset {
		err = fmt.Errorf("%w (on %s, %d lines)", ErrAlready, time.Unix(mark.At, 0).UTC().Format(time.DateTime+" MST"), mark.Lines)
	}
	return out, err
}

var newline = []byte{'\n'}

// cutUnfinished returns the block without its last line if that has no end and does not
// parse: it is still being written.
func (f *feed) cutUnfinished(block []byte) []byte {
	i := lastNewline(block) + 1
	if last := block[i:]; i > 0 && len(last) <= MaxLine && !f.parser.read(last, &f.rec) {
		return block[:i]
	}
	return block
}

func wholeLines(b []byte) []byte { return b[:lastNewline(b)+1] }

// recognise returns the saved state of a file that begins with head.
func (in *Ingester) recognise(ctx context.Context, service string, head []byte) (key string, m imported, err error) {
	m.Head = min(len(head), fingerprintBytes)
	key = importKey(service, head[:m.Head])
	prefix := "import/" + service + "\x00"
	found := 0
	err = in.o.State.Load(ctx, prefix, func(k string, value []byte) error {
		var known imported
		if err := json.Unmarshal(value, &known); err != nil {
			return fmt.Errorf("saved state of an import: %w", err)
		}
		if known.Head > found && known.Head <= len(head) && importKey(service, head[:known.Head]) == k {
			found, key, m = known.Head, k, known
		}
		return nil
	})
	return key, m, err
}

// remember saves records, and what was learned of routes.
func (in *Ingester) remember(ctx context.Context, s *service, records map[string]any) error {
	out := map[string][]byte{}
	for k, v := range records {
		if v == nil { // delete it
			out[k] = nil
			continue
		}
		if m, ok := v.(imported); ok {
			m.At = in.o.Now().Unix()
			v = m
		}
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		out[k] = b
	}
	if in.o.Routes == nil {
		routes, changed, err := s.learned()
		if err != nil {
			return err
		}
		if changed {
			out[routesKey(s.name)] = routes
		}
	}
	sequences, err := s.sequencePositions()
	if err != nil {
		return err
	}
	if sequences != nil {
		out[sequencesKey(s.name)] = sequences
	}
	err = in.o.State.Save(ctx, out)
	if in.o.Routes != nil { // afterwards: lines whose position is not saved would count twice
		err = errors.Join(err, in.shareRoutes(ctx, s))
	}
	return err
}

func (in *Ingester) begin(key string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.imports[key] {
		return false
	}
	in.imports[key] = true
	return true
}

func (in *Ingester) end(key string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.imports, key)
}

// maxListed bounds the routes and tenants that a report lists.
const maxListed = 50

// report returns the result for a file.
func (f *feed) report(from, to int64) *api.AccessLogImport {
	f.svc.mu.Lock()
	defer f.svc.mu.Unlock()
	t := &f.tally
	out := &api.AccessLogImport{
		Service: f.src.Service, Format: f.src.FormatName(), ResumedAt: from, Bytes: to,
		Accepted: t.Accepted, Refused: map[string]uint64{},
		Start: api.Float(float64(t.First) / 1e9), End: api.Float(float64(t.Last) / 1e9),
		Routes: []api.AccessLogShare{}, Tenants: []api.AccessLogShare{}, Problems: []api.AccessLogProblem{},
	}
	out.Lines = t.Accepted
	if out.Untimed = t.Untimed; t.Untimed > 0 {
		out.Notice = ErrNoDuration.Error()
	}
	for r, n := range t.Refused {
		if n > 0 {
			out.Refused[Reason(r).String()] = n
			out.Lines += n
		}
	}
	for _, p := range t.Problems {
		out.Problems = append(out.Problems, api.AccessLogProblem{Line: p.Line, Column: p.Column, Reason: p.Reason.String(), Message: p.Message, Text: p.Text})
	}
	for i, n := range t.operations {
		if n > 0 {
			out.Routes = append(out.Routes, api.AccessLogShare{Name: f.svc.router.operations[i-1].name, Requests: n})
		}
	}
	for name, n := range t.tenants {
		out.Tenants = append(out.Tenants, api.AccessLogShare{Name: name, Requests: n})
	}
	out.RouteCount, out.TenantCount = len(out.Routes), len(out.Tenants)
	out.Routes, out.Tenants = heaviest(out.Routes), heaviest(out.Tenants)
	return out
}

func heaviest(s []api.AccessLogShare) []api.AccessLogShare {
	slices.SortFunc(s, func(a, b api.AccessLogShare) int {
		if a.Requests != b.Requests {
			if a.Requests > b.Requests {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return s[:min(len(s), maxListed)]
}
