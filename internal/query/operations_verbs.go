package query

import (
	"context"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// What a database operation does, as its first word says.
const (
	VerbFind  = "find"
	VerbSave  = "save"
	VerbOther = "other"
)

// verbWords are first words of operations, of SQL and of the commands of
// document and key-value stores (db.operation.name), in lower case.
var verbWords = map[string][]string{
	VerbFind: {
		"select", "find", "findone", "get", "getitem", "mget", "hget", "hgetall", "hmget", "lrange", "smembers", "zrange", "exists", "scan",
		"query", "search", "msearch", "aggregate", "count", "countdocuments", "distinct", "fetch", "read", "list", "show", "explain", "with", "batchgetitem", "getmore",
	},
	VerbSave: {
		"insert", "insertone", "insertmany", "update", "updateone", "updatemany", "updateitem", "delete", "deleteone", "deletemany", "deleteitem",
		"merge", "replace", "replaceone", "upsert", "save", "put", "putitem", "batchwriteitem", "bulk", "bulkwrite", "index", "write",
		"set", "setex", "mset", "hset", "hmset", "del", "incr", "decr", "expire", "lpush", "rpush", "sadd", "srem", "zadd", "zrem",
		"findandmodify", "findoneandupdate", "findoneandreplace", "findoneanddelete", "truncate", "copy",
	},
}

// Verb says whether a database operation finds or saves, or does another thing
// (COMMIT, CREATE TABLE), by its first word in any case.
func Verb(operation string) string {
	word := operation
	if i := strings.IndexFunc(operation, func(r rune) bool { return !isWordRune(r) }); i >= 0 {
		word = operation[:i]
	}
	word = strings.ToLower(word)
	for _, v := range []string{VerbFind, VerbSave} {
		if slices.Contains(verbWords[v], word) {
			return v
		}
	}
	return VerbOther
}

func isWordRune(r rune) bool {
	return r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

// verbMatcher matches the operations of which Verb says verb, so that a store
// merges them.
func verbMatcher(verb string) *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchRegexp, series.LabelOperation, `(?i:`+strings.Join(verbWords[verb], "|")+`)([^0-9A-Za-z_].*)?`)
}

// verbs sums the selection's database operations by what they do.
func verbs(ctx context.Context, st store.Store, p *operationPage) ([]api.Verb, error) {
	n := int((p.q.End - p.q.Start) / p.q.Step)
	grid := p.grid()
	read := func(verb string, m *labels.Matcher) (api.Verb, error) {
		v := api.Verb{Verb: verb, SecondsOver: make([]api.Float, n), RateOver: make([]api.Float, n)}
		q := p.q
		q.By, q.Measure, q.Matchers = nil, store.Moments, slices.Clone(p.q.Matchers)
		if m != nil {
			q.Matchers = append(q.Matchers, m)
		}
		res, err := st.Query(ctx, q)
		if err != nil {
			return v, err
		}
		for _, g := range res.Groups {
			v.Calls += groupCount(g)
			grid.sum(g, v.SecondsOver, v.RateOver)
		}
		for _, s := range v.SecondsOver {
			v.Seconds += s
		}
		return v, nil
	}
	out := make([]api.Verb, 0, 3)
	all := 0.0
	for _, verb := range []string{VerbFind, VerbSave, VerbOther} {
		var m *labels.Matcher
		if verb != VerbOther {
			m = verbMatcher(verb)
		} else {
			m = labels.MustNewMatcher(labels.MatchNotRegexp, series.LabelOperation, verbMatcher(VerbFind).Value+"|"+verbMatcher(VerbSave).Value)
		}
		v, err := read(verb, m)
		if err != nil {
			return nil, err
		}
		all += float64(v.Seconds)
		out = append(out, v)
	}
	for i := range out {
		out[i].Share = api.Float(float64(out[i].Seconds) / all)
	}
	return out, nil
}
