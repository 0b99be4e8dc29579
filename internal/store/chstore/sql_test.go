package chstore

import (
	"testing"

	"github.com/prometheus/prometheus/model/labels"
)

func TestMatchersInSQL(t *testing.T) {
	const value = "values[indexOf(names, 'service')]"
	for _, tt := range []struct {
		typ   labels.MatchType
		value string
		want  string
	}{
		{labels.MatchEqual, "a", value + " = 'a'"},
		{labels.MatchEqual, "", value + " = ''"},
		{labels.MatchNotEqual, `it's a \ and` + "\x00\n", value + ` != 'it\'s a \\ and\0\n'`},
		{labels.MatchRegexp, "a|b", value + " IN ('a','b')"},
		{labels.MatchNotRegexp, "a|b", "NOT " + value + " IN ('a','b')"},
		{labels.MatchRegexp, "a.*", "match(" + value + `, '\\A(?:(?s:a.*))\\z')`},
		{labels.MatchNotRegexp, "(?i)a+", "NOT match(" + value + `, '\\A(?:(?i:A+))\\z')`},
		{labels.MatchRegexp, `(?<x>\d+)\.`, "match(" + value + `, '\\A(?:(?P<x>[0-9]+)\\.)\\z')`},
	} {
		m := labels.MustNewMatcher(tt.typ, "service", tt.value)
		got, err := matches(m)
		if err != nil || got != tt.want {
			t.Errorf("%v: got %s, %v, want %s", m, got, err, tt.want)
		}
	}
}

func TestLists(t *testing.T) {
	for want, got := range map[string]string{
		"1,2": list([]uint64{1, 2}), "-1,9223372036854775807": list([]int64{-1, 1<<63 - 1}), "18446744073709551615": list([]uint64{1<<64 - 1}), "": list([]int32{}),
		`'a','b\'c'`: quoteAll([]string{"a", "b'c"}),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
