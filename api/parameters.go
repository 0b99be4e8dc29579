package api

import (
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Time is a moment as a parameter: RFC 3339, Unix seconds, now, or now plus or
// minus a duration, such as now-6h. Empty is the server's default.
type Time string

// Quantiles are numbers between 0 and 1. They stay text because an answer is keyed
// by them as they were written.
type Quantiles []string

// Quantile is one quantile between 0 and 1, both excluded.
type Quantile float64

// Share is a part of a whole, between 0 and 1, both excluded.
type Share float64

// Parameters returns the query string of a request of this package: the fields
// tagged query that are not zero, and pointers that are not nil. A list is parted
// by commas.
func Parameters(request any) url.Values {
	v := reflect.Indirect(reflect.ValueOf(request))
	q := url.Values{}
	for _, f := range parametersOf(v.Type()) {
		x := v.FieldByIndex(f.index)
		if x.IsZero() {
			continue
		}
		if text := parameterText(reflect.Indirect(x)); text != "" {
			q.Set(f.name, text)
		}
	}
	return q
}

type parameter struct {
	name  string
	index []int
}

var parameters sync.Map // reflect.Type to []parameter

func parametersOf(t reflect.Type) []parameter {
	if known, ok := parameters.Load(t); ok {
		return known.([]parameter)
	}
	var out []parameter
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("query"); name != "" {
			out = append(out, parameter{name, f.Index})
		}
	}
	parameters.Store(t, out)
	return out
}

func parameterText(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return durationText(x)
	case []float64:
		texts := make([]string, len(x))
		for i, f := range x {
			texts[i] = strconv.FormatFloat(f, 'g', -1, 64)
		}
		return strings.Join(texts, ",")
	}
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case reflect.Slice:
		texts := make([]string, v.Len())
		for i := range texts {
			texts[i] = v.Index(i).String()
		}
		return strings.Join(texts, ",")
	}
	panic("api: a parameter of type " + v.Type().String()) // a test encodes every request
}

// durationText writes 1h30m for 1h30m0s.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
