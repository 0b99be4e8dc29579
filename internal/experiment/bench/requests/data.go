package requests

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// table holds rows of data, only the columns that are used.
type table struct {
	file  string
	wide  int // how many are kept
	rows  int
	arena []byte
	ends  []uint32 // where cells end in arena, row by row
}

// cell returns a value, valid as long as the table.
func (t *table) cell(row, column int) []byte {
	i := row*t.wide + column
	from := uint32(0)
	if i > 0 {
		from = t.ends[i-1]
	}
	return t.arena[from:t.ends[i]]
}

func (t *table) add(cell []byte) {
	t.arena = append(t.arena, cell...)
	t.ends = append(t.ends, uint32(len(t.arena)))
}

const (
	formatCSV   = "csv"
	formatTSV   = "tsv"
	formatJSONL = "jsonl"
)

// formatOf returns the format of a file of rows by its ending.
func formatOf(name string) string {
	switch name = strings.ToLower(name); {
	case strings.HasSuffix(name, ".csv"):
		return formatCSV
	case strings.HasSuffix(name, ".tsv"):
		return formatTSV
	case strings.HasSuffix(name, ".jsonl"), strings.HasSuffix(name, ".ndjson"), strings.HasSuffix(name, ".jsonlines"):
		return formatJSONL
	}
	return ""
}

// columnNames reads the names of a file's columns: those of the header line, or
// of the first row.
func columnNames(file, format string, text []byte) ([]string, *Problem) {
	if format == formatJSONL {
		line, number := firstLine(text)
		if line == nil {
			return nil, &Problem{File: file, Text: "it holds no rows", Hint: "write one JSON object a line"}
		}
		object, p := jsonRow(file, number, line)
		if p != nil {
			return nil, p
		}
		if len(object) == 0 {
			return nil, &Problem{File: file, Line: number, Text: "the first row is empty, but names the columns", Hint: `write every row with all its names, such as {"word": "time"}`}
		}
		return pathsOf(object, 8), nil
	}
	header, err := csvReader(format, text).Read()
	if errors.Is(err, io.EOF) {
		return nil, &Problem{File: file, Text: "it is empty", Hint: "the first line names the columns, such as word,count"}
	}
	if err != nil {
		return nil, csvProblem(file, err)
	}
	header = slices.Clone(header)
	for i, name := range header {
		header[i] = strings.TrimSpace(name)
		switch {
		case header[i] == "":
			return nil, &Problem{File: file, Line: 1, Text: fmt.Sprintf("column %d has no name", i+1), Hint: "the first line names the columns, such as word,count"}
		case slices.Contains(header[:i], header[i]):
			return nil, &Problem{File: file, Line: 1, Text: fmt.Sprintf("two columns are called %s", header[i]), Hint: "rename one of them in the first line"}
		case strings.ContainsAny(header[i], "{}|"):
			return nil, &Problem{File: file, Line: 1, Text: fmt.Sprintf("column %q has a brace or a bar in its name", header[i]), Hint: "rename it in the first line"}
		}
	}
	return header, nil
}

// readTable reads the used columns of all rows. It returns at most maxProblems
// problems.
func readTable(file, format string, text []byte, used []string) (*table, []Problem) {
	t := &table{file: file, wide: len(used)}
	if len(text) > math.MaxUint32 {
		return t, []Problem{{File: file, Text: "it is larger than 4 GiB", Hint: "use a part of it"}}
	}
	var problems []Problem
	if format == formatJSONL {
		problems = t.readJSONL(text, used)
	} else {
		problems = t.readCSV(format, text, used)
	}
	if t.rows == 0 && len(problems) == 0 {
		problems = []Problem{{File: file, Text: "it holds no rows", Hint: "write at least one line below the names of the columns"}}
	}
	return t, problems
}

// withoutMark removes a byte order mark, which spreadsheets write.
func withoutMark(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) }

func csvReader(format string, text []byte) *csv.Reader {
	r := csv.NewReader(bytes.NewReader(withoutMark(text)))
	r.ReuseRecord = true
	if format == formatTSV {
		r.Comma = '\t'
	}
	return r
}

func csvProblem(file string, err error) *Problem {
	p := &Problem{File: file, Text: err.Error()}
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		p.Line, p.Column, p.Text = parse.Line, parse.Column, parse.Err.Error()
	}
	switch {
	case errors.Is(err, csv.ErrFieldCount):
		p.Column, p.Text, p.Hint = 0, "it has another number of fields than the first line has names", "put a field that holds a comma into double quotes"
	case errors.Is(err, csv.ErrQuote), errors.Is(err, csv.ErrBareQuote):
		p.Text, p.Hint = "a double quote stands where none may, or one is not closed", `write "" for one within a quoted field (RFC 4180)`
	}
	return p
}

func (t *table) readCSV(format string, text []byte, used []string) (problems []Problem) {
	r := csvReader(format, text)
	header, err := r.Read()
	if err != nil {
		return []Problem{*csvProblem(t.file, err)}
	}
	var at []int
	for _, name := range used {
		at = append(at, slices.IndexFunc(header, func(h string) bool { return strings.TrimSpace(h) == name }))
	}
	for len(problems) < maxProblems {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			problems = append(problems, *csvProblem(t.file, err))
			if !errors.Is(err, csv.ErrFieldCount) {
				break // where the next record begins is not known
			}
			continue
		}
		for _, i := range at {
			t.add([]byte(record[i]))
		}
		t.rows++
	}
	return problems
}

// eachLine calls yield with every line that is not blank and its number, until it
// returns false.
func eachLine(text []byte, yield func(number int, line []byte) bool) {
	text = withoutMark(text)
	for number := 1; len(text) > 0; number++ {
		line, rest, _ := bytes.Cut(text, []byte{'\n'})
		text = rest
		if line = bytes.TrimSpace(line); len(line) > 0 && !yield(number, line) {
			return
		}
	}
}

func firstLine(text []byte) (line []byte, number int) {
	eachLine(text, func(n int, l []byte) bool { line, number = l, n; return false })
	return line, number
}

func (t *table) readJSONL(text []byte, used []string) (problems []Problem) {
	eachLine(text, func(number int, line []byte) bool {
		object, p := jsonRow(t.file, number, line)
		if p != nil {
			problems = append(problems, *p)
			return len(problems) < maxProblems
		}
		for _, name := range used {
			raw, ok := member(object, name)
			if !ok {
				problems = append(problems, Problem{File: t.file, Line: number, Text: "the row has no " + name, Hint: "every row needs it, if only as null"})
				return len(problems) < maxProblems
			}
			t.add(jsonText(raw))
		}
		t.rows++
		return true
	})
	return problems
}

func jsonRow(file string, number int, line []byte) (map[string]json.RawMessage, *Problem) {
	var object map[string]json.RawMessage
	err := json.Unmarshal(line, &object)
	if err == nil && object == nil {
		err = errors.New("it is null")
	}
	if err != nil {
		p := &Problem{File: file, Line: number, Text: "this is not a JSON object: " + strings.TrimPrefix(err.Error(), "json: "), Hint: `write one object a line, such as {"word": "time"}`}
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			p.Column = int(syntax.Offset)
		}
		return nil, p
	}
	return object, nil
}

// member finds a value by its key, or by keys of objects within objects with
// points between.
func member(object map[string]json.RawMessage, name string) (json.RawMessage, bool) {
	if raw, ok := object[name]; ok {
		return raw, true
	}
	for at := strings.IndexByte(name, '.'); at >= 0; {
		if raw, ok := object[name[:at]]; ok {
			var inner map[string]json.RawMessage
			if json.Unmarshal(raw, &inner) == nil {
				if found, ok := member(inner, name[at+1:]); ok {
					return found, true
				}
			}
		}
		next := strings.IndexByte(name[at+1:], '.')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return nil, false
}

// pathsOf returns the names of the values of an object down to depth.
func pathsOf(object map[string]json.RawMessage, depth int) (names []string) {
	for key, raw := range object {
		names = append(names, key)
		var inner map[string]json.RawMessage
		if depth > 1 && len(raw) > 0 && raw[0] == '{' && json.Unmarshal(raw, &inner) == nil {
			for _, path := range pathsOf(inner, depth-1) {
				names = append(names, key+"."+path)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// jsonText returns a value as it is filled in: of a string its text, of null nothing,
// of anything else its JSON.
func jsonText(raw json.RawMessage) []byte {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil
	case raw[0] == '"':
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return []byte(s)
		}
	case raw[0] == '{' || raw[0] == '[':
		var b bytes.Buffer
		if json.Compact(&b, raw) == nil {
			return b.Bytes()
		}
	}
	return raw
}
