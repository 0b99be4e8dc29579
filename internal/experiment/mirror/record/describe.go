package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// maxRows bounds the methods, operations and statuses that Describe lists.
const maxRows = 20

// Describe prints the content of a record: the session's facts, sizes and rates, and
// the requests by method, status and operation. It describes a torn or damaged record
// up to the damage, and returns the error.
func Describe(in io.Reader, out io.Writer) error {
	r, err := Open(in)
	if err != nil {
		return err
	}
	var (
		e                            Entry
		last                         time.Duration
		requests, bodies, kept       uint64
		bodyBytes, answerBytes       int64
		methods, statuses, operation = map[string]uint64{}, map[string]uint64{}, map[string]uint64{}
		tenants                      = map[string]bool{}
	)
	for {
		if err = r.Next(&e); err != nil {
			break
		}
		requests++
		last = max(last, e.Offset)
		count(methods, e.Method)
		count(operation, e.Operation)
		status := "no answer"
		if e.Status > 0 {
			status = fmt.Sprint(e.Status)
		}
		count(statuses, status)
		if len(tenants) < 1<<16 {
			tenants[e.Tenant] = true
		}
		if e.BodyBytes > 0 {
			bodies++
			bodyBytes += e.BodyBytes
			if e.Whole() {
				kept++
			}
		}
		answerBytes += e.AnswerBytes
	}
	delete(tenants, "")

	h := r.Header()
	fmt.Fprintf(out, "session   %s\n", cmp.Or(h.Name, h.ID))
	fmt.Fprintf(out, "service   %s\n", h.Service)
	fmt.Fprintf(out, "primary   %s\n", h.Primary)
	fmt.Fprintf(out, "start     %s\n", h.Start.UTC().Format(time.RFC3339))
	fmt.Fprintf(out, "length    %s\n", last.Round(time.Millisecond))
	fmt.Fprintf(out, "requests  %d", requests)
	if last > 0 {
		fmt.Fprintf(out, ", %.1f a second", float64(requests)/last.Seconds())
	}
	fmt.Fprintln(out)
	if end, ok := r.End(); ok && end.Dropped > 0 {
		fmt.Fprintf(out, "dropped   %d, as the disk was behind\n", end.Dropped)
	}
	fmt.Fprintf(out, "bodies    %d of %d bytes, %d of them kept\n", bodies, bodyBytes, kept)
	fmt.Fprintf(out, "answers   %d bytes\n", answerBytes)
	fmt.Fprintf(out, "tenants   %d\n", len(tenants))
	table(out, "method", methods)
	table(out, "status", statuses)
	table(out, "operation", operation)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// count counts a name, up to a bound of names.
func count(m map[string]uint64, name string) {
	if _, ok := m[name]; ok || len(m) < 4096 {
		m[name]++
	} else {
		m["_other"]++
	}
}

func table(out io.Writer, title string, m map[string]uint64) {
	if len(m) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%-10s requests\n", title)
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		if i == maxRows {
			fmt.Fprintf(out, "%10s %d more\n", "", len(names)-i)
			return
		}
		fmt.Fprintf(out, "%10d %s\n", m[name], name)
	}
}
