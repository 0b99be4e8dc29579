package requests

import (
	"errors"
	"net/url"

	"tailscope/internal/bench/load"
)

// Set is a compiled Spec, good for one run: its Sources share which rows were
// taken.
type Set struct {
	base    *url.URL
	queries []string
	tenants []string
	checks  []string
}

// Compile makes a Set, or says everything that is wrong (Problems).
func Compile(s Spec) (*Set, error) { return nil, errors.New("not compiled yet") }

// Base is the URL that requests go to: scheme and host.
func (s *Set) Base() *url.URL { return s.base }

// Queries, Tenants and Checks are what the numbers of requests and answers stand
// for.
func (s *Set) Queries() []string { return s.queries }
func (s *Set) Tenants() []string { return s.tenants }
func (s *Set) Checks() []string  { return s.checks }

// Recorded says that requests bring their own times (load.Options.Recorded).
func (s *Set) Recorded() bool { return false }

// Source yields the requests of one loop of loops.
func (s *Set) Source(loop, loops int) (load.Source, error) { return nil, errors.New("not compiled yet") }

// Checker looks at answers; nil if there is nothing to check.
func (s *Set) Checker() load.Checker { return nil }

// Accepts says that a status is none of an error: it is below 400, or the query's
// check wants it.
func (s *Set) Accepts(query, status int) bool { return status < 400 }

// Enough says whether the data lasts for so many requests, as an error that says
// what runs out and when.
func (s *Set) Enough(requests uint64) error { return nil }

// Notes says what was left out of a recording or a log, and how often, for people.
func (s *Set) Notes() []string { return nil }

// RanOut says which data ended the run; empty if none did.
func (s *Set) RanOut() string { return "" }

// Close frees what the set holds.
func (s *Set) Close() error { return nil }
