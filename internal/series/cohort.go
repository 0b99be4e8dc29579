package series

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Cohorts lists the cohorts, the largest first. Small holds every tenant that is in none
// of the others.
var Cohorts = []string{VeryLarge, Large, Medium, Small}

// CohortsBy* name what the cohorts are derived from.
const (
	CohortsByShare = "share of requests"
	CohortsByList  = "list"
)

// TenantList lists tenants with sizes, in whatever unit the operator counts: seats,
// revenue, contracts. A nil list holds no tenants. A list is immutable.
type TenantList struct {
	sizes   map[string]float64
	cohorts map[string]string
}

// ListedTenant is one line of a list. Cohort follows from Size if it is empty.
type ListedTenant struct {
	Name   string
	Size   float64 // 0 or more; NaN if only the cohort is known
	Cohort string
}

func (t *ListedTenant) check() error {
	switch {
	case t.Name == "":
		return errors.New("a tenant has no name")
	case t.Size < 0 || math.IsInf(t.Size, 0):
		return fmt.Errorf("tenant %q has a size of %g: write 0 or more", t.Name, t.Size)
	case t.Cohort != "" && !slices.Contains(Cohorts, t.Cohort):
		return fmt.Errorf("tenant %q has the cohort %q: write very large, large, medium or small", t.Name, t.Cohort)
	case t.Cohort == "" && math.IsNaN(t.Size):
		return fmt.Errorf("tenant %q has neither a size nor a cohort", t.Name)
	}
	return nil
}

// CohortSizes holds the least size of each cohort; smaller tenants are small. The zero
// value divides by the share of the sum of all sizes, as Cohort does for requests.
type CohortSizes struct{ VeryLarge, Large, Medium float64 }

// Validate returns an error that states the sizes, if they are invalid.
func (s CohortSizes) Validate() error {
	if s == (CohortSizes{}) {
		return nil
	}
	for _, v := range []float64{s.VeryLarge, s.Large, s.Medium} {
		if !(v > 0) || math.IsInf(v, 0) {
			return fmt.Errorf("sizes from which tenants are very large, large and medium are %g, %g and %g: give all three, above 0, or none", s.VeryLarge, s.Large, s.Medium)
		}
	}
	if s.VeryLarge <= s.Large || s.Large <= s.Medium {
		return fmt.Errorf("sizes from which tenants are very large, large and medium are %g, %g and %g: they have to fall", s.VeryLarge, s.Large, s.Medium)
	}
	return nil
}

// NewTenantList returns a list of the tenants. It returns an error for a name that
// occurs twice, a size below 0 or an unknown cohort.
func NewTenantList(all []ListedTenant, sizes CohortSizes) (*TenantList, error) {
	if err := sizes.Validate(); err != nil {
		return nil, err
	}
	l := &TenantList{sizes: make(map[string]float64, len(all)), cohorts: make(map[string]string, len(all))}
	total := 0.0
	var bad []error
	for _, t := range all {
		if len(bad) == mostBad {
			break
		}
		if err := t.check(); err != nil {
			bad = append(bad, err)
		} else if _, twice := l.sizes[t.Name]; twice {
			bad = append(bad, fmt.Errorf("tenant %q is listed twice", t.Name))
		}
		l.sizes[t.Name] = t.Size
		if !math.IsNaN(t.Size) {
			total += t.Size
		}
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	for _, t := range all {
		cohort := t.Cohort
		if cohort == "" {
			cohort = sizes.of(t.Size, total)
		}
		l.cohorts[t.Name] = cohort
	}
	return l, nil
}

func (s CohortSizes) of(size, total float64) string {
	switch {
	case s == (CohortSizes{}):
		return Cohort(size / total)
	case size >= s.VeryLarge:
		return VeryLarge
	case size >= s.Large:
		return Large
	case size >= s.Medium:
		return Medium
	}
	return Small
}

// Len returns the number of tenants listed.
func (l *TenantList) Len() int {
	if l == nil {
		return 0
	}
	return len(l.cohorts)
}

// Cohort returns the cohort of a tenant; ok is false if it is not listed. A tenant that
// a non-empty list lacks is small.
func (l *TenantList) Cohort(name string) (cohort string, ok bool) {
	if l == nil {
		return "", false
	}
	cohort, ok = l.cohorts[name]
	return cohort, ok
}

// Size returns the listed size, or NaN if there is none.
func (l *TenantList) Size(name string) float64 {
	if l != nil {
		if v, ok := l.sizes[name]; ok {
			return v
		}
	}
	return math.NaN()
}

// CohortOf returns the cohort of a tenant that sends the given share (0 to 1) of
// requests. The list decides if there is one, else the share. Nobody and Other are
// small.
func (l *TenantList) CohortOf(name string, share float64) string {
	if l.Len() > 0 {
		if c, ok := l.Cohort(name); ok {
			return c
		}
		return Small
	}
	if name == "" || name == Other {
		return Small
	}
	return Cohort(share)
}

// By returns what the cohorts are derived from, one of CohortsBy*.
func (l *TenantList) By() string {
	if l.Len() > 0 {
		return CohortsByList
	}
	return CohortsByShare
}
