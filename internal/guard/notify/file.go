package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"tailscope/internal/guard/check/spec"
)

// file appends a line for each message. Before each batch it looks whether the
// file is still there under its name, and opens it anew if it was rotated away.
// Events are synced to disk before they count as delivered.
type file struct {
	spec spec.FileOut
	f    *os.File
	buf  []byte
}

func newFile(s spec.FileOut) (*file, error) {
	if s.Path == "" {
		return nil, errors.New("file: path: write where lines go")
	}
	switch s.Format {
	case "", "json", "text":
	default:
		return nil, fmt.Errorf("file: format %q: use json or text", s.Format)
	}
	switch s.What {
	case "", "events", "results", "both":
	default:
		return nil, fmt.Errorf("file: what %q: use events, results or both", s.What)
	}
	return &file{spec: s}, nil
}

func (f *file) capabilities() capabilities {
	return capabilities{
		kind: "file", to: f.spec.Path, batch: 1000,
		events:  f.spec.What != "results",
		results: f.spec.What == "results" || f.spec.What == "both",
	}
}

func (f *file) close() {
	if f.f != nil {
		_ = f.f.Close()
		f.f = nil
	}
}

func (f *file) send(_ context.Context, messages []message, report func(int, error)) error {
	if err := f.open(); err != nil {
		return err
	}
	info, err := f.f.Stat()
	if err != nil {
		return err
	}
	b, sync := f.buf[:0], false
	for i := range messages {
		if b, err = f.line(b, messages[i]); err != nil {
			return err
		}
		sync = sync || messages[i].event != nil
	}
	f.buf = b
	if n, err := f.f.Write(b); err != nil {
		if n > 0 && info.Mode().IsRegular() {
			// Half a line would spoil the next.
			_ = f.f.Truncate(info.Size())
		}
		f.close()
		return err
	}
	if sync && info.Mode().IsRegular() {
		if err := f.f.Sync(); err != nil {
			f.close()
			return err
		}
	}
	for i := range messages {
		report(i, nil)
	}
	return nil
}

func (f *file) open() error {
	if f.f != nil {
		now, err := os.Stat(f.spec.Path)
		was, err2 := f.f.Stat()
		if err == nil && err2 == nil && os.SameFile(now, was) {
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f.close()
	}
	if info, err := os.Stat(f.spec.Path); err == nil && !info.Mode().IsRegular() && info.Mode()&os.ModeCharDevice == 0 {
		return fmt.Errorf("%s is not a regular file", f.spec.Path)
	}
	opened, err := os.OpenFile(f.spec.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	f.f = opened
	return nil
}

func (f *file) line(b []byte, m message) ([]byte, error) {
	if f.spec.Format == "text" {
		if e := m.event; e != nil {
			return fmt.Appendf(b, "%s %s %s %s -> %s %s/%d: %s\n", e.Time.UTC().Format(time.RFC3339), e.Kind, clean(e.Key.ID(), ""), e.From, e.To, clean(e.Incident, ""), e.Seq, clean(e.Text, "")), nil
		}
		r := m.result
		return fmt.Appendf(b, "%s %s %s\n", r.Time.UTC().Format(time.RFC3339), clean(r.Key.ID(), ""), pluginOutput(r, nscaOutput, 0)), nil
	}
	var body any
	if m.event != nil {
		body = newWireEvent(m.event)
	} else {
		body = newWireResult(m.result)
	}
	line, err := json.Marshal(body)
	if err != nil {
		return b, err
	}
	return append(append(b, line...), '\n'), nil
}
