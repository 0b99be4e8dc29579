package scenario

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxDocument bounds one document.
const maxDocument = 64 << 20

// documents reads data one by one.
type documents struct {
	next func() ([]byte, error) // io.EOF at the end; good until the next call
	name string                 // of the file or command
	line int                    // of what was read last
}

// readDocuments reads data of a format: jsonl, csv, tsv or lines.
func readDocuments(r io.Reader, name, format string) (*documents, error) {
	d := &documents{name: name}
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		r = z
	}
	switch format {
	case "csv", "tsv":
		return d, d.table(r, format)
	default:
		d.lines(r, format == "jsonl")
		return d, nil
	}
}

func (d *documents) lines(r io.Reader, whole bool) {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), maxDocument)
	d.next = func() ([]byte, error) {
		for in.Scan() {
			d.line++
			line := in.Bytes()
			if whole {
				if line = bytes.TrimSpace(line); len(line) == 0 {
					continue
				}
				if !json.Valid(line) {
					return nil, fmt.Errorf("%s:%d: this line is not a JSON document (hint: one document a line, or write format: lines)", d.name, d.line)
				}
			}
			return line, nil
		}
		if err := in.Err(); err != nil {
			if errors.Is(err, bufio.ErrTooLong) {
				err = fmt.Errorf("the line is longer than %d MiB", maxDocument>>20)
			}
			return nil, fmt.Errorf("%s:%d: %w", d.name, d.line+1, err)
		}
		return nil, io.EOF
	}
}

// table makes JSON objects of rows, in the order of the columns.
func (d *documents) table(r io.Reader, format string) error {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	if format == "tsv" {
		in.Comma, in.LazyQuotes = '\t', true
	}
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s is empty (hint: its first line names the columns)", d.name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	keys := make([][]byte, len(header))
	for i, name := range header {
		if keys[i], err = json.Marshal(strings.TrimPrefix(name, "\ufeff")); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
	}
	var out []byte
	d.next = func() ([]byte, error) {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
		out = append(out[:0], '{')
		for i, v := range row {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(append(out, keys[i]...), ':')
			value, err := json.Marshal(v)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", d.name, err)
			}
			out = append(out, value...)
		}
		return append(out, '}'), nil
	}
	return nil
}

// batch is the body of one request.
type batch struct {
	number    int // from 1
	body      []byte
	documents uint64
}

// batches joins documents to bodies and passes each to send, until send fails or the
// data ends. send owns the bodies.
func (d *documents) batches(l *DataLoad, send func(batch) error) error {
	b := batch{number: 1}
	flush := func() error {
		if b.documents == 0 {
			return nil
		}
		if l.As == "json" {
			b.body = append(b.body, ']')
		}
		full := b
		b = batch{number: full.number + 1, body: make([]byte, 0, len(full.body)+len(full.body)/8)}
		return send(full)
	}
	for total := uint64(0); l.AtMost == 0 || total < l.AtMost; total++ {
		doc, err := d.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if l.As == "json" && l.Format == "lines" {
			if doc, err = json.Marshal(string(doc)); err != nil {
				return err
			}
		}
		switch l.As {
		case "single":
			b.body = append(b.body, doc...)
		case "json":
			sep := byte(',')
			if b.documents == 0 {
				sep = '['
			}
			b.body = append(append(b.body, sep), doc...)
		case "bulk":
			b.body = append(append(b.body, l.Action...), '\n')
			b.body = append(append(b.body, doc...), '\n')
		default:
			b.body = append(append(b.body, doc...), '\n')
		}
		if b.documents++; b.documents >= uint64(l.Batch) {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// contentType returns the default content type of bodies.
func contentType(as string) string {
	switch as {
	case "json", "single":
		return "application/json"
	case "lines":
		return "text/plain"
	}
	return "application/x-ndjson"
}
