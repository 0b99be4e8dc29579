package sla

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"tailscope/api"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

// Targets keeps the T of services and operations, as settings in the store. They are
// few, and read at each use. Targets are safe for concurrent use, also by several
// servers that share the store.
type Targets struct{ st store.Records }

// NewTargets returns the targets in st.
func NewTargets(st store.Records) *Targets { return &Targets{st} }

const (
	settingsKind = "settings" // of records
	targetPrefix = "apdex/"

	maxName    = 1024
	maxTargets = 10000
	// MinT and MaxT bound T, in seconds.
	MinT, MaxT = 1e-6, 3600
)

// Set holds the targets at one moment.
type Set struct {
	list    []api.ApdexTarget // by service, then operation
	of      map[[2]string]float64
	Default float64
}

// The sources of T.
const (
	FromAsked     = "asked"
	FromOperation = "operation"
	FromService   = "service"
	FromDefault   = "default"
)

// T returns the target, in seconds, of an operation of a service, or of the service if
// operation is empty, and its source.
func (s *Set) T(service, operation string) (t float64, from string) {
	if operation != "" {
		if t, ok := s.of[[2]string{service, operation}]; ok {
			return t, FromOperation
		}
	}
	if t, ok := s.of[[2]string{service, ""}]; ok {
		return t, FromService
	}
	return s.Default, FromDefault
}

// OfService returns the T of a service.
func (s *Set) OfService(service string) float64 {
	t, _ := s.T(service, "")
	return t
}

// Response lists the targets.
func (s *Set) Response() *api.ApdexTargetsResponse {
	return &api.ApdexTargetsResponse{Default: float(s.Default), Targets: s.list}
}

// All reads every target.
func (t *Targets) All(ctx context.Context) (*Set, error) {
	s := &Set{list: []api.ApdexTarget{}, of: map[[2]string]float64{}, Default: query.DefaultApdexT}
	err := t.st.ListRecords(ctx, settingsKind, targetPrefix, func(r store.Record) error {
		var a api.ApdexTarget
		if err := json.Unmarshal(r.Value, &a); err != nil {
			return fmt.Errorf("apdex target %q: %w: %w", r.Key, store.ErrCorrupt, err)
		}
		s.list = append(s.list, a)
		s.of[[2]string{a.Service, a.Operation}] = float64(a.T)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(s.list, func(a, b api.ApdexTarget) int {
		if c := strings.Compare(a.Service, b.Service); c != 0 {
			return c
		}
		return strings.Compare(a.Operation, b.Operation)
	})
	return s, nil
}

// Put sets a target. The service need not exist yet.
func (t *Targets) Put(ctx context.Context, a api.ApdexTarget) error {
	if err := checkTarget(a.Service, a.Operation); err != nil {
		return err
	}
	if err := CheckT("t", float64(a.T)); err != nil {
		return err
	}
	value, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode apdex target: %w", err)
	}
	key := targetKey(a.Service, a.Operation)
	return store.UpdateRecords(ctx, t.st, settingsKind, targetPrefix, func(have []store.Record) ([]store.RecordWrite, error) {
		if !hasKey(have, key) && len(have) >= maxTargets {
			return nil, &query.Error{Code: query.CodeTooMany, Message: fmt.Sprintf("there are %d targets already; remove one first", len(have))}
		}
		return []store.RecordWrite{{Key: key, Value: value}}, nil
	})
}

// Delete removes a target, so that the next wider one holds. The error is not_found if
// there is none.
func (t *Targets) Delete(ctx context.Context, service, operation string) error {
	if err := checkTarget(service, operation); err != nil {
		return err
	}
	key := targetKey(service, operation)
	return store.UpdateRecords(ctx, t.st, settingsKind, targetPrefix, func(have []store.Record) ([]store.RecordWrite, error) {
		if !hasKey(have, key) {
			of := service
			if operation != "" {
				of = operation + " of " + service
			}
			return nil, &query.Error{Code: query.CodeNotFound, Field: "service", Message: of + " has no target of its own, so there is none to remove"}
		}
		return []store.RecordWrite{{Key: key}}, nil
	})
}

func hasKey(have []store.Record, key string) bool {
	return slices.ContainsFunc(have, func(r store.Record) bool { return r.Key == key })
}

// targetKey joins service and operation by a byte that neither may hold.
func targetKey(service, operation string) string {
	return targetPrefix + service + "\x00" + operation
}

func checkTarget(service, operation string) error {
	if service == "" {
		return query.Invalid("service", `a target needs a service; write {"service": "checkout", "t": 0.3}`)
	}
	for field, v := range map[string]string{"service": service, "operation": operation} {
		if len(v) > maxName {
			return query.Invalid(field, "%s is longer than %d bytes", field, maxName)
		}
		if !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl) {
			return query.Invalid(field, "%s has characters that cannot be printed; write it as /api/v1/labels shows it", field)
		}
	}
	return nil
}

// CheckT returns an error if t is not a valid target.
func CheckT(field string, t float64) error {
	switch {
	case math.IsNaN(t) || t <= 0:
		return query.Invalid(field, "%s must be a positive number of seconds, such as 0.5", field)
	case t < MinT || t > MaxT:
		return query.Invalid(field, "%s of %g s is not between 1 µs and 1 h; it is in seconds, such as 0.5", field, t)
	}
	return nil
}
