package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tailscope/api"
)

// Mark is a named moment.
type Mark struct {
	ID          string
	Time        time.Time
	Name        string
	Service     string // empty for every service
	Environment string // of the service; empty for all that it has
	Revision    string
	User        string
	Description string
	Link        string
	Allow       string // changes that its verdict allows: worse:3%,p99=increase:5%
}

// API returns the mark in the form of the API, without a verdict.
func (m Mark) API() api.Mark {
	return api.Mark{
		ID: m.ID, Time: api.UnixTime(m.Time), Name: m.Name, Service: m.Service, Environment: m.Environment,
		Revision: m.Revision, User: m.User, Description: m.Description, Link: m.Link, Allow: m.Allow,
	}
}

// Concerns reports whether a mark may be of what was measured of a service in one of its
// environments; an empty name stands for any.
func (m *Mark) Concerns(service, environment string) bool {
	return (m.Service == "" || service == "" || m.Service == service) && (m.Environment == "" || environment == "" || m.Environment == environment)
}

// KindMarks is the kind of the records that hold marks, under their ids.
const KindMarks = "marks"

// storedMark is the JSON part of a mark's record, after the time.
type storedMark struct {
	Name        string `json:"name"`
	Service     string `json:"service,omitempty"`
	Environment string `json:"environment,omitempty"`
	Revision    string `json:"revision,omitempty"`
	User        string `json:"user,omitempty"`
	Description string `json:"description,omitempty"`
	Link        string `json:"link,omitempty"`
	Allow       string `json:"allow,omitempty"`
}

// AppendMark appends the value of a mark's record: its time as big-endian Unix
// nanoseconds, so that marks of other times need not be decoded, then JSON.
func AppendMark(dst []byte, m Mark) ([]byte, error) {
	b, err := json.Marshal(storedMark{m.Name, m.Service, m.Environment, m.Revision, m.User, m.Description, m.Link, m.Allow})
	if err != nil {
		return dst, fmt.Errorf("encode mark %s: %w", m.ID, err)
	}
	return append(binary.BigEndian.AppendUint64(dst, uint64(m.Time.UnixNano())), b...), nil
}

// PutMark stores a mark durably, and replaces one with the same ID.
func PutMark(ctx context.Context, r Records, m Mark) error {
	if m.ID == "" {
		return errors.New("put mark: the mark has no id")
	}
	v, err := AppendMark(nil, m)
	if err == nil {
		_, err = r.PutRecords(ctx, KindMarks, RecordWrite{m.ID, v, AnyRevision})
	}
	if err != nil {
		return fmt.Errorf("put mark %s: %w", m.ID, err)
	}
	return nil
}

// DeleteMark removes a mark. It is not an error if there is none.
func DeleteMark(ctx context.Context, r Records, id string) error {
	if _, err := r.PutRecords(ctx, KindMarks, RecordWrite{Key: id, IfRevision: AnyRevision}); err != nil {
		return fmt.Errorf("delete mark %s: %w", id, err)
	}
	return nil
}

// AllMarks returns all marks, as Marks does.
func AllMarks(ctx context.Context, r Records) ([]Mark, error) {
	return Marks(ctx, r, time.Unix(0, 0), time.Unix(1<<40, 0))
}

// Marks returns the marks in [start, end), in order of time, then of id. The error wraps
// ErrCorrupt if one does not decode.
func Marks(ctx context.Context, r Records, start, end time.Time) ([]Mark, error) {
	from, until := unixNano(start), unixNano(end)
	var out []Mark
	err := r.ListRecords(ctx, KindMarks, "", func(x Record) error {
		if len(x.Value) < 8 {
			return fmt.Errorf("mark %q: %w", x.Key, ErrCorrupt)
		}
		at := int64(binary.BigEndian.Uint64(x.Value))
		if at < from || at >= until {
			return nil
		}
		var m storedMark
		if err := json.Unmarshal(x.Value[8:], &m); err != nil {
			return fmt.Errorf("mark %q: %w: %w", x.Key, ErrCorrupt, err)
		}
		out = append(out, Mark{x.Key, time.Unix(0, at).UTC(), m.Name, m.Service, m.Environment, m.Revision, m.User, m.Description, m.Link, m.Allow})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("marks: %w", err)
	}
	slices.SortFunc(out, func(a, b Mark) int { return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.ID, b.ID)) })
	return out, nil
}

// unixNano returns Unix nanoseconds, clamped to what they can express (the years 1678 to
// 2262).
func unixNano(t time.Time) int64 {
	switch s := t.Unix(); {
	case s < -9e9:
		return -1 << 63
	case s > 9e9:
		return 1<<63 - 1
	}
	return t.UnixNano()
}
