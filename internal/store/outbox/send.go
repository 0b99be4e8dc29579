package outbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/backoff"
	"tailscope/internal/store/packed"
)

// incarnations is the file that lists, as a JSON array, the incarnation that a server last
// acknowledged and those after it, up to the running one.
const incarnationsFile = "incarnations"

// mostIncarnations bounds the list: an agent that starts again and again while its server is
// away. The first, which the server knows, stays.
const mostIncarnations = 500

// beginIncarnation reads what earlier starts were called, and writes the list with the name
// of this one before anything is sent under it.
func (s *Store) beginIncarnation() error {
	var list []string
	path := s.o.FS.PathJoin(s.o.Dir, incarnationsFile)
	in, err := s.o.FS.Open(path)
	if err == nil {
		var b []byte
		b, err = io.ReadAll(in)
		if err = errors.Join(err, in.Close()); err == nil {
			err = json.Unmarshal(b, &list)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w (the server knows this agent by it: without it, start with an empty data directory)", path, err)
		}
	}
	var own [8]byte
	rand.Read(own[:]) // never fails
	s.self.Incarnation = hex.EncodeToString(own[:])
	if len(list) > mostIncarnations {
		list = slices.Delete(list, 1, len(list)-mostIncarnations)
	}
	s.self.Earlier = list
	return s.writeIncarnations(append(slices.Clone(list), s.self.Incarnation))
}

func (s *Store) writeIncarnations(list []string) error {
	b, err := json.Marshal(list)
	if err != nil {
		return err
	}
	path := s.o.FS.PathJoin(s.o.Dir, incarnationsFile)
	out, err := s.o.FS.Create(path+partSuffix, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = out.Write(b)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return errors.Join(s.o.FS.Rename(path+partSuffix, path), s.syncDir(s.o.Dir))
}

// Run sends what waits until ctx is done.
func (s *Store) Run(ctx context.Context) {
	for {
		wait := s.Send(ctx)
		timer := time.NewTimer(wait)
		wake := s.wake
		if s.breaker.Failures+s.reading.Failures > 0 {
			wake = nil // while the server or the disk fails only time helps
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// Send sends what waits, until nothing does, a request fails, or ctx is done. It returns how
// long to wait before it is called again, unless Put is called first.
func (s *Store) Send(ctx context.Context) (wait time.Duration) {
	if wait := max(s.breaker.Wait(s.o.Now()), s.reading.Wait(s.o.Now())); wait > 0 {
		return wait
	}
	for ctx.Err() == nil {
		f, traces := s.front()
		var err error
		switch {
		case f != nil:
			err = s.sendFile(ctx, f, traces)
		case s.otlp != nil:
			return s.o.Heartbeat
		case s.o.Now().Sub(s.heard) < s.o.Heartbeat:
			return s.o.Heartbeat - s.o.Now().Sub(s.heard)
		default:
			_, err = s.post(ctx, nil)
		}
		if err == nil {
			s.succeeded()
			continue
		}
		if ctx.Err() != nil {
			break
		}
		if local := (*spoolError)(nil); errors.As(err, &local) {
			s.reading.Fail(s.o.Now(), 0, s.o.Random())
			s.o.Logger.Error("a file of the spool cannot be read, or not be set aside; it is tried again", "err", err, "attempts", s.reading.Failures, "next", s.reading.Until)
			return s.reading.Wait(s.o.Now())
		}
		s.failed(err)
		return s.breaker.Wait(s.o.Now())
	}
	return 0
}

// front returns the file to send next: generations go before traces.
func (s *Store) front() (f *file, traces bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) > 0 {
		return s.waiting[0], false
	}
	if len(s.traces) > 0 {
		return s.traces[0], true
	}
	return nil, false
}

// sendFile sends the frames of a file that are not acknowledged yet, and deletes it.
func (s *Store) sendFile(ctx context.Context, f *file, traces bool) error {
	for f.sent < f.size {
		frame, err := s.frame(f, f.sent)
		switch {
		case errors.Is(err, packed.ErrCorrupt), errors.Is(err, fs.ErrNotExist), err != nil && s.reading.Failures >= mostReads-1:
			return s.drop(f, traces, err, &s.stats.Damaged)
		case err != nil:
			return &spoolError{fmt.Errorf("read the spool: %w", err)}
		}
		s.reading.Succeed()
		a, err := s.deliver(ctx, frame)
		var never *refusal
		if errors.As(err, &never) {
			return s.drop(f, traces, err, &s.stats.Refused)
		}
		if err != nil {
			return err
		}
		f.sent += 4 + int64(len(frame))
		s.mu.Lock()
		s.stats.Frames++
		s.stats.Bytes += uint64(len(frame))
		if a.Duplicate {
			s.stats.Duplicates++
		}
		s.mu.Unlock()
	}
	if err := s.o.FS.Remove(f.path); err != nil {
		// The server knows it as a duplicate when a later start sends it again.
		s.o.Logger.Warn("a file of the spool that was delivered is not deleted", "err", err)
	}
	s.dequeue(f, traces)
	if !traces {
		s.mu.Lock()
		s.stats.Generations++
		s.mu.Unlock()
	}
	return nil
}

// drop sets a file aside that cannot be delivered, so that those behind it are.
func (s *Store) drop(f *file, traces bool, why error, count *uint64) error {
	if err := s.setAside(f, why); err != nil {
		return &spoolError{err}
	}
	s.reading.Succeed()
	s.dequeue(f, traces)
	s.mu.Lock()
	defer s.mu.Unlock()
	*count++
	return nil
}

func (s *Store) dequeue(f *file, traces bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= f.size
	if traces {
		s.traceBytes -= f.size
		s.traces = s.traces[1:]
		return
	}
	s.waiting = s.waiting[1:]
}

// mostReads is the number of attempts to read a file of the spool.
const mostReads = 5

// spoolError is a failure of the spool, which says nothing about the server.
type spoolError struct{ error }

// refusal is an error that no retry will change: the frame is at fault.
type refusal struct{ error }

// retryLater is an answer of a server that is alive and asks for another attempt.
type retryLater struct {
	error
	after time.Duration
}

// post sends one frame, or none to say that the agent is alive.
func (s *Store) post(ctx context.Context, frame []byte) (a packed.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	self := s.self
	s.mu.Lock()
	s.stats.Attempts++
	self.Generation, self.SpoolFiles, self.SpoolBytes = s.generation, len(s.waiting)+len(s.traces), s.bytes
	if len(s.waiting) > 0 {
		self.SpoolOldest = float64(s.waiting[0].written.UnixMilli()) / 1000
	}
	s.mu.Unlock()
	about, err := json.Marshal(self)
	if err != nil {
		return a, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.o.To, bytes.NewReader(frame))
	if err != nil {
		return a, fmt.Errorf("send to the server: %w", err)
	}
	req.Header.Set("Content-Type", packed.ContentType)
	req.Header.Set(packed.AgentHeader, string(about))
	res, err := s.o.HTTP.Do(req)
	if err != nil {
		return a, fmt.Errorf("send to the server: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return a, fmt.Errorf("answer of %s: %w", s.o.To, err)
	}
	parsed := json.Unmarshal(text, &a)
	if res.StatusCode == http.StatusOK {
		if parsed != nil {
			return a, fmt.Errorf("%s answers, but not as a tailscope server does: give the address of its OTLP over HTTP", s.o.To)
		}
		s.confirm()
		return a, nil
	}
	said := a.Error
	if said == "" {
		said = string(text[:min(len(text), 200)])
	}
	err = fmt.Errorf("%s answers %s: %s", s.o.To, res.Status, said)
	if res.StatusCode == http.StatusBadRequest && a.Error != "" {
		return a, &refusal{err}
	}
	return a, &retryLater{err, backoff.RetryAfter(res.Header.Get("Retry-After"))}
}

// confirm records that a server has acknowledged this incarnation: it need not be told of
// those before.
func (s *Store) confirm() {
	s.heard = s.o.Now()
	if s.confirmed {
		return
	}
	if err := s.writeIncarnations([]string{s.self.Incarnation}); err != nil {
		s.o.Logger.Warn("the file of incarnations is not written; it is tried again", "err", err)
		return
	}
	s.confirmed, s.self.Earlier = true, nil
}

func (s *Store) succeeded() {
	before := s.breaker
	s.breaker.Succeed()
	s.mu.Lock()
	s.stats.LastError, s.stats.Down, s.stats.Heard = "", false, s.heard
	s.mu.Unlock()
	if before.Failures > 0 {
		s.o.Logger.Info("the server takes what waits again", "failures", before.Failures, "since", before.Since)
	}
}

func (s *Store) failed(err error) {
	var later *retryLater
	hint := time.Duration(0)
	if errors.As(err, &later) {
		hint = later.after
	}
	s.breaker.Fail(s.o.Now(), hint, s.o.Random())
	b := s.breaker
	s.mu.Lock()
	s.stats.Failures++
	s.stats.LastError, s.stats.Down = err.Error(), b.Open()
	files, size := len(s.waiting)+len(s.traces), s.bytes
	s.mu.Unlock()
	if b.Failures == 1 || b.Failures == backoff.OpenAfter || b.Failures%10 == 0 {
		s.o.Logger.Warn("what was measured waits in the spool", "err", err, "attempts", b.Failures, "since", b.Since, "files", files, "bytes", size, "next", b.Until)
	}
}
