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

// Import says what a stream of lines is.
type Import struct {
	Source *Source
	Since  time.Time // earlier lines are passed over; zero: none
	Again  bool      // count it though it was imported before
	Dry    bool      // count nothing
}

// ErrAlready says that a file was imported before and has not grown.
var ErrAlready = errors.New("this file was imported before, and has not grown since")

// ErrBusy says that the same file is being imported right now.
var ErrBusy = errors.New("this file is being imported by somebody else right now")

// formatError says what is wrong with the format, which is the sender's to mend.
type formatError struct{ error }

func (e formatError) Unwrap() error { return e.error }

// fingerprintBytes is how much of a file's beginning it is recognised by.
const fingerprintBytes = 4 << 10

// imported is what is remembered of a file.
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

// Import reads lines to the end of r and returns what came of them. It reads
// no faster than they are taken.
//
// How far it came is saved with every block: when r breaks off, or the server
// stops, the same file given again goes on where it stopped, and a file that
// has grown goes on where it ended. What a Follower has read of the file is
// passed over. The error wraps ErrAlready or ErrBusy, is
// ctx's or r's, or says what is wrong with the format; the response tells what
// was taken nevertheless.
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
		// Somebody may have come to its end just before.
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
	defer f.svc.leave(key)
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
		if err := f.block(ctx, lines, offset); err != nil {
			return err
		}
		mark.Offset, mark.Lines = offset+int64(len(lines)), f.tally.Lines
		if what.Dry {
			return nil
		}
		// What was taken is remembered even if nobody waits for the answer.
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
			block = f.unfinished(block)
		}
		before, within, after := skip.around(block, offset)
		if err = take(before, offset); err != nil {
			break
		}
		passed += int64(len(within))
		f.tally.Lines += uint64(bytes.Count(within, newline))
		if err = take(after, offset+int64(len(before)+len(within))); err != nil {
			break
		}
		// Also what was passed over need not be looked at again.
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
		in.o.Logger.Warn("an access log without durations was imported: its requests and their sizes were counted, and nothing else is known of them; log $request_time too",
			"service", src.Service, "format", out.Format, "requests", out.Untimed, "log_format", Directive)
	}
	out.Followed = passed
	if err == nil && resumed > 0 && resumed == mark.Offset {
		err = fmt.Errorf("%w (on %s, %d lines)", ErrAlready, time.Unix(mark.At, 0).UTC().Format(time.DateTime+" MST"), mark.Lines)
	}
	return out, err
}

var newline = []byte{'\n'}

// unfinished leaves the last line out if it has no end and makes no sense: it
// is still being written.
func (f *feed) unfinished(block []byte) []byte {
	i := lastNewline(block) + 1
	if last := block[i:]; i > 0 && len(last) <= MaxLine && !f.parser.read(last, &f.rec) {
		return block[:i]
	}
	return block
}

func wholeLines(b []byte) []byte { return b[:lastNewline(b)+1] }

// recognise finds what is remembered of a file that begins with head.
func (in *Ingester) recognise(ctx context.Context, service string, head []byte) (key string, m imported, err error) {
	m.Head = min(len(head), fingerprintBytes)
	key = importKey(service, head[:m.Head])
	prefix := "import/" + service + "\x00"
	found := 0
	err = in.o.State.Load(ctx, prefix, func(k string, value []byte) error {
		var known imported
		if err := json.Unmarshal(value, &known); err != nil {
			return fmt.Errorf("what is remembered of an import: %w", err)
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
		if v == nil { // forget it
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
	routes, changed, err := s.learned()
	if err != nil {
		return err
	}
	if changed {
		out[routesKey(s.name)] = routes
	}
	sequences, err := s.counted()
	if err != nil {
		return err
	}
	if sequences != nil {
		out[sequencesKey(s.name)] = sequences
	}
	return in.o.State.Save(ctx, out)
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

// report says what came of a file.
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
