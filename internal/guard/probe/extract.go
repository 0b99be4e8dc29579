package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// numberAt finds a number in a JSON document. Path is words parted by dots:
// names of members, places in a list from 0, negative ones from its end, or # for
// how many there are; \. is a dot within a name. True is 1, false 0, a string is
// read as a number, and null is null.
func numberAt(doc []byte, path string) (v float64, null bool, err error) {
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(doc, []byte("\ufeff"))))
	dec.UseNumber()
	var at any
	if err := dec.Decode(&at); err != nil {
		return 0, false, fmt.Errorf("the body is not JSON (%w); measure by regexp, or correct the address", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return 0, false, errors.New("the body goes on after its JSON; measure by regexp")
	}
	here := "the body"
	for _, key := range pathKeys(path) {
		switch now := at.(type) {
		case map[string]any:
			next, ok := now[key]
			switch {
			case ok:
				at = next
			case key == "#":
				at = json.Number(strconv.Itoa(len(now)))
			default:
				return 0, false, fmt.Errorf("%s has no %q; it has %s", here, key, someKeys(now))
			}
		case []any:
			if key == "#" {
				at = json.Number(strconv.Itoa(len(now)))
				break
			}
			i, err := strconv.Atoi(key)
			if err != nil {
				return 0, false, fmt.Errorf("%s is a list; write a place in it from 0, or # for its length, instead of %q", here, key)
			}
			if i < 0 {
				i += len(now)
			}
			if i < 0 || i >= len(now) {
				return 0, false, fmt.Errorf("%s has %d elements and none at %s; write a place that it has", here, len(now), key)
			}
			at = now[i]
		default:
			return 0, false, fmt.Errorf("%s is %s and has no %q; shorten the path", here, kindOf(at), key)
		}
		here = key
	}
	switch now := at.(type) {
	case nil:
		return 0, true, nil
	case bool:
		if now {
			v = 1
		}
		return v, false, nil
	case json.Number:
		v, err = number(now.String())
	case string:
		v, err = number(now)
	default:
		err = fmt.Errorf("%s is %s, not a number; lengthen the path", here, kindOf(at))
	}
	return v, false, err
}

func pathKeys(path string) []string {
	if path == "" {
		return nil
	}
	var keys []string
	var key strings.Builder
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == '\\' && i+1 < len(path) && (path[i+1] == '.' || path[i+1] == '\\'):
			i++
			key.WriteByte(path[i])
		case c == '.':
			keys = append(keys, key.String())
			key.Reset()
		default:
			key.WriteByte(c)
		}
	}
	return append(keys, key.String())
}

func kindOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a string"
	case bool:
		return "a truth value"
	case nil:
		return "null"
	}
	return "a number"
}

// someKeys lists the names of an object's members for people.
func someKeys(of map[string]any) string {
	names := make([]string, 0, len(of))
	for name := range of {
		names = append(names, name)
	}
	if len(names) == 0 {
		return "nothing"
	}
	slices.Sort(names)
	const most = 8
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// numberMatching reads the first group of the first match as a number, or the
// match if the pattern has no group.
func numberMatching(body []byte, pattern string) (v float64, null bool, err error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return 0, false, fmt.Errorf("regexp: %w", err)
	}
	m := re.FindSubmatch(body)
	if m == nil {
		return 0, false, errors.New("nothing in the body matches the regexp; correct it, or look at what the server answers")
	}
	v, err = number(string(m[min(1, len(m)-1)]))
	return v, false, err
}

// number reads a finite number, spaces around it and a comma for every thousand
// aside.
func number(s string) (float64, error) {
	text := strings.TrimSpace(s)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil && thousands.MatchString(text) {
		v, err = strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	}
	if err != nil {
		if len(text) > 40 {
			text = text[:40] + "…"
		}
		return 0, fmt.Errorf("%q is not a number; choose what is one", text)
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%s is not a finite number; choose what is one", text)
	}
	return v, nil
}

var thousands = regexp.MustCompile(`^[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?$`)
