package series

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// ReadTenantList reads a list from a file: CSV whose first line names the
// columns tenant and size, cohort or both; or a JSON array of objects with
// those keys. Errors name the file and, of CSV, each of the first bad lines.
func ReadTenantList(path string, sizes CohortSizes) (*TenantList, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	l, err := ParseTenantList(b, sizes)
	if lines, ok := err.(interface{ Unwrap() []error }); ok {
		var named []error
		for _, e := range lines.Unwrap() {
			named = append(named, fmt.Errorf("%s: %w", path, e))
		}
		return nil, errors.Join(named...)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// ParseTenantList parses the bytes of a file that ReadTenantList reads.
func ParseTenantList(b []byte, sizes CohortSizes) (*TenantList, error) {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	read := csvTenants
	if start := bytes.TrimSpace(b); len(start) > 0 && (start[0] == '[' || start[0] == '{') {
		read = jsonTenants
	}
	all, err := read(b)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("no tenant is listed")
	}
	return NewTenantList(all, sizes)
}

func jsonTenants(b []byte) ([]ListedTenant, error) {
	var all []struct {
		Tenant string   `json:"tenant"`
		Size   *float64 `json:"size"`
		Cohort string   `json:"cohort"`
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf(`write an array such as [{"tenant": "acme", "size": 1200}]: %w`, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the array")
	}
	out := make([]ListedTenant, len(all))
	for i, t := range all {
		out[i] = ListedTenant{t.Tenant, math.NaN(), t.Cohort}
		if t.Size != nil {
			out[i].Size = *t.Size
		}
	}
	return out, nil
}

// mostBad bounds the bad lines that are reported of a file.
const mostBad = 20

func csvTenants(b []byte) ([]ListedTenant, error) {
	r := csv.NewReader(bytes.NewReader(b))
	r.TrimLeadingSpace, r.ReuseRecord, r.Comment = true, true, '#'
	head, err := r.Read()
	if err == io.EOF {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for i, name := range head {
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := at[name]; twice || !slices.Contains([]string{"tenant", "size", "cohort"}, name) {
			return nil, fmt.Errorf("line 1: the column %q is unknown or named twice; write tenant,size or tenant,size,cohort", name)
		}
		at[name] = i
	}
	tenant, ok := at["tenant"]
	if !ok || len(at) < 2 {
		return nil, errors.New("line 1: write the columns tenant,size or tenant,size,cohort")
	}
	field := func(row []string, name string) string {
		if i, ok := at[name]; ok {
			return strings.TrimSpace(row[i])
		}
		return ""
	}
	var out []ListedTenant
	var bad []error
	first := map[string]int{}
	for {
		row, err := r.Read()
		if err == io.EOF {
			return out, errors.Join(bad...)
		}
		if len(bad) == mostBad {
			return nil, errors.Join(append(bad, errors.New("lines after these were not read"))...)
		}
		if errors.Is(err, csv.ErrFieldCount) {
			line, _ := r.FieldPos(0)
			bad = append(bad, fmt.Errorf("line %d: there are %d fields, not %d as on line 1", line, len(row), len(head)))
			continue
		}
		if err != nil {
			return nil, errors.Join(append(bad, err)...) // the lines after an unclosed quote cannot be separated
		}
		line, _ := r.FieldPos(0)
		t := ListedTenant{Name: strings.TrimSpace(row[tenant]), Size: math.NaN(), Cohort: strings.ToLower(field(row, "cohort"))}
		if text := field(row, "size"); text != "" {
			if t.Size, err = strconv.ParseFloat(text, 64); err != nil || !(t.Size >= 0) || math.IsInf(t.Size, 0) {
				bad = append(bad, fmt.Errorf("line %d: %q is not a size: write a number of 0 or more", line, text))
				continue
			}
		}
		if err := t.check(); err != nil {
			bad = append(bad, fmt.Errorf("line %d: %w", line, err))
			continue
		}
		if was, twice := first[t.Name]; twice {
			bad = append(bad, fmt.Errorf("line %d: tenant %q is already on line %d", line, t.Name, was))
			continue
		}
		first[t.Name] = line
		out = append(out, t)
	}
}
