package accesslog

import (
	"errors"
	"io"
	"slices"
)

// Logged is a request as its line describes it. Its slices are valid until the next.
type Logged struct {
	Start   int64  // Unix nanoseconds; its end, if Untimed
	Untimed bool   // the line lacks the duration
	Method  []byte // empty if the line lacks it
	Target  []byte // path and query as requested; without the query where the log omits it
	Host    []byte
	Tenant  []byte
	Status  int
	// Operation is named by the lines so far; a later line may show that a part of the
	// path is a name.
	Operation string
}

// Each reads a log to its end and calls yield with every request in it, in the order of
// lines, which is mostly that of their ends. It counts nothing into a server. The Tally
// counts the lines that are not requests, with the first problems; lines of requests
// that could not be parsed at all (a port scan) are among Refused as no_request. The
// error is r's, yield's, or describes a fault of the format.
func (s *Source) Each(r io.Reader, yield func(*Logged) error) (Tally, error) {
	var t Tally
	b := newBlocks(r, 0, blockBytes)
	head := b.head(blockBytes)
	if b.err != nil && !errors.Is(b.err, io.EOF) {
		return t, b.err
	}
	src, err := s.ForLines(head)
	if err != nil {
		return t, err
	}
	f := feed{src: src, svc: &service{router: newRouter()}, parser: parser{f: src.format}}
	f.learn(wholeLines(head))
	var logged Logged
	for {
		block, _, ok := b.next()
		if !ok {
			break
		}
		for len(block) > 0 {
			var line []byte
			if line, block = cutLine(block); len(line) == 0 {
				continue
			}
			t.Lines++
			switch rec := &f.rec; {
			case len(line) > MaxLine:
				f.parser.fail(TooLong, MaxLine, "")
				f.refuse(&t, line)
			case !f.parser.read(line, rec):
				f.refuse(&t, line)
			case len(rec.path) == 0:
				f.parser.fail(NoRequest, 0, "")
				f.refuse(&t, line)
			default:
				t.Accepted++
				logged = Logged{
					Start: rec.start, Untimed: rec.untimed, Method: rec.method, Target: rec.target, Host: rec.host,
					Tenant: src.tenant.tenantOf(rec), Status: rec.status, Operation: f.svc.router.operationOf(rec, src.rules).name,
				}
				if rec.untimed {
					t.Untimed++
				}
				if t.First == 0 || rec.end < t.First {
					t.First = rec.end
				}
				t.Last = max(t.Last, rec.end)
				if err := yield(&logged); err != nil {
					return t, err
				}
			}
		}
	}
	if b.err != nil && !errors.Is(b.err, io.EOF) {
		return t, b.err
	}
	t.Problems = slices.Clip(t.Problems)
	return t, nil
}
