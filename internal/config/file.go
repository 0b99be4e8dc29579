package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// File sets c from the text of a YAML file. name is used in errors, which are
// of the form name:line: what is wrong. All problems are returned.
func (c *Config) File(name string, content []byte) []error {
	f, err := parser.ParseBytes(content, 0)
	if err != nil {
		return []error{fmt.Errorf("%s: %w", name, firstLine(err))}
	}
	r := fileReader{name: name, config: c}
	if len(f.Docs) > 1 {
		r.fail(f.Docs[1].Body, "a second document: write one only")
	}
	if len(f.Docs) > 0 && f.Docs[0].Body != nil {
		r.mapping("", f.Docs[0].Body)
	}
	return r.errs
}

type fileReader struct {
	name   string
	config *Config
	errs   []error
}

func (r *fileReader) fail(n ast.Node, format string, args ...any) {
	line := 0
	if n != nil {
		if t := n.GetToken(); t != nil && t.Position != nil {
			line = t.Position.Line
		}
	}
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %s", r.name, line, fmt.Sprintf(format, args...)))
}

// mapping reads the keys below the section prefix, which is empty or ends in a dot.
func (r *fileReader) mapping(prefix string, n ast.Node) {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	case *ast.NullNode, *ast.CommentGroupNode:
		return
	default:
		r.fail(n, "%s: write key: value below it", orTop(strings.TrimSuffix(prefix, ".")))
		return
	}
	for _, v := range values {
		key := prefix + keyText(v.Key)
		if key == accessLogsKey {
			r.accessLogs(v.Value)
			continue
		}
		if s, ok := settingByKey(key); ok {
			r.setting(s, v.Value)
			continue
		}
		if isSection(key) {
			r.mapping(key+".", v.Value)
			continue
		}
		r.fail(v.Key, "unknown key %s: did you mean %s?", key, nearest(key))
	}
}

func (r *fileReader) setting(s Setting, n ast.Node) {
	value := s.Value(r.config)
	if items := itemsOf(value); items != nil {
		if seq, ok := n.(*ast.SequenceNode); ok {
			var texts []string
			for _, item := range seq.Values {
				t, ok := scalar(item)
				if !ok {
					r.fail(item, "%s: write a list of plain words", s.Key)
					return
				}
				texts = append(texts, t)
			}
			*items = texts
			return
		}
	}
	t, ok := scalar(n)
	if !ok {
		r.fail(n, "%s: write one %s", s.Key, value.Type())
		return
	}
	if err := value.Set(t); err != nil {
		r.fail(n, "%s: %v", s.Key, err)
	}
}

// itemsOf is where a value keeps a list, nil if it holds one thing.
func itemsOf(v Value) *[]string {
	switch v := v.(type) {
	case list:
		return v.p
	case paths:
		return v.p
	case entries:
		return v.p
	}
	return nil
}

// scalar returns a node's text as it was written, so that 4317 and 10e3 are
// read by the setting and not by YAML.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.NullNode:
		return "", true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func keyText(k ast.MapKeyNode) string {
	if s, ok := k.(*ast.StringNode); ok {
		return s.Value
	}
	return k.GetToken().Value
}

func isSection(key string) bool {
	for _, s := range Settings {
		if strings.HasPrefix(s.Key, key+".") {
			return true
		}
	}
	return false
}

func orTop(key string) string {
	if key == "" {
		return "the file"
	}
	return key
}

// firstLine keeps the YAML parser's message and drops its picture of the source.
func firstLine(err error) error {
	line, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	return errors.New(line)
}

// nearest returns the known key or section that takes the fewest edits to
// reach from key, preferring one whose last word is the same.
func nearest(key string) string {
	leaf := key[strings.LastIndexByte(key, '.')+1:]
	best, bestCost := "", int(^uint(0)>>1)
	consider := func(candidate string) {
		cost := 2 * distance(key, candidate)
		candidateLeaf := candidate[strings.LastIndexByte(candidate, '.')+1:]
		cost = min(cost, 1+2*distance(leaf, candidateLeaf))
		if cost < bestCost {
			best, bestCost = candidate, cost
		}
	}
	consider(accessLogsKey)
	for _, s := range Settings {
		if section, _, ok := strings.Cut(s.Key, "."); ok {
			consider(section)
		}
		consider(s.Key)
	}
	return best
}

// distance is Levenshtein's, with a swap of neighbours as one edit.
func distance(a, b string) int {
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
