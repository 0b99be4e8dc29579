package api

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// MarshalJSON writes null for NaN and infinities.
func (f Float) MarshalJSON() ([]byte, error) { return appendFloat(nil, f), nil }

// UnmarshalJSON reads null as NaN.
func (f *Float) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*f = Float(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(f))
}

// AppendJSON appends the response as encoding/json would write it, several times as
// fast (BenchmarkAppendJSON): a heatmap holds some 100,000 numbers.
func (r *HeatmapResponse) AppendJSON(b []byte) []byte {
	b = append(b, `{"start":`...)
	b = strconv.AppendInt(b, r.Start, 10)
	b = append(b, `,"end":`...)
	b = strconv.AppendInt(b, r.End, 10)
	b = r.Whole.appendJSON(b)
	b = r.Warned.appendJSON(b)
	b = append(b, `,"family":`...)
	b = appendString(b, r.Family)
	b = append(b, `,"step":`...)
	b = strconv.AppendInt(b, r.Step, 10)
	b = append(b, `,"slot":`...)
	b = strconv.AppendInt(b, r.Slot, 10)
	b = append(b, `,"error":`...)
	b = appendFloat(b, r.Error)
	b = append(b, `,"bounds":`...)
	b = appendFloats(b, r.Bounds)
	b = appendList(append(b, `,"columns":`...), r.Columns, (*HeatmapColumn).appendJSON)
	b = append(b, `,"count":`...)
	b = strconv.AppendUint(b, r.Count, 10)
	b = append(b, `,"max_cell":`...)
	b = strconv.AppendUint(b, r.MaxCell, 10)
	return append(b, '}')
}

// appendJSON appends the field warnings, if there are any, and its comma.
func (w *Warned) appendJSON(b []byte) []byte {
	for i, text := range w.Warnings {
		if i == 0 {
			b = append(b, `,"warnings":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendString(b, text)
	}
	if len(w.Warnings) > 0 {
		b = append(b, ']')
	}
	return b
}

// appendJSON appends the field instead, if there is one, and its comma.
func (m *Misnamed) appendJSON(b []byte) []byte {
	if m.Instead == nil {
		return b
	}
	return appendAny(append(b, `,"instead":`...), m.Instead)
}

func (c *HeatmapColumn) appendJSON(b []byte) []byte {
	b = append(b, `{"start":`...)
	b = strconv.AppendInt(b, c.Start, 10)
	b = append(b, `,"count":`...)
	b = strconv.AppendUint(b, c.Count, 10)
	b = append(b, `,"sum":`...)
	b = appendFloat(b, c.Sum)
	b = append(b, `,"min":`...)
	b = appendFloat(b, c.Min)
	b = append(b, `,"max":`...)
	b = appendFloat(b, c.Max)
	b = appendInts(append(b, `,"rows":`...), c.Rows)
	b = appendInts(append(b, `,"counts":`...), c.Counts)
	return append(b, '}')
}

func (w *Whole) appendJSON(b []byte) []byte {
	if w.WholeUntil == 0 {
		return b
	}
	return strconv.AppendInt(append(b, `,"whole_until":`...), w.WholeUntil, 10)
}

// AppendJSON appends the response as encoding/json would write it.
func (r *TimelineResponse) AppendJSON(b []byte) []byte {
	b = append(b, `{"start":`...)
	b = strconv.AppendInt(b, r.Start, 10)
	b = append(b, `,"end":`...)
	b = strconv.AppendInt(b, r.End, 10)
	b = r.Whole.appendJSON(b)
	b = r.Warned.appendJSON(b)
	b = r.Misnamed.appendJSON(b)
	b = append(b, `,"family":`...)
	b = appendString(b, r.Family)
	b = append(b, `,"step":`...)
	b = strconv.AppendInt(b, r.Step, 10)
	b = append(b, `,"slot":`...)
	b = strconv.AppendInt(b, r.Slot, 10)
	if r.Offset != 0 {
		b = append(b, `,"offset":`...)
		b = strconv.AppendInt(b, r.Offset, 10)
	}
	if r.Overlay != nil {
		b = appendString(append(b, `,"overlay":{"name":`...), r.Overlay.Name)
		b = appendString(append(b, `,"of":`...), r.Overlay.Of)
		b = append(appendString(append(b, `,"zone":`...), r.Overlay.Zone), '}')
	}
	if r.Per != "" {
		b = appendString(append(b, `,"per":`...), r.Per)
	}
	if r.Slide != 0 {
		b = strconv.AppendInt(append(b, `,"slide":`...), r.Slide, 10)
	}
	b = appendInts(append(b, `,"times":`...), r.Times)
	b = appendList(append(b, `,"groups":`...), r.Groups, (*TimelineGroup).appendJSON)
	return append(b, '}')
}

func (g *TimelineGroup) appendJSON(b []byte) []byte {
	b = append(b, `{"labels":{`...)
	for i, k := range sortedKeys(g.Labels) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, k), ':')
		b = appendString(b, g.Labels[k])
	}
	b = appendInts(append(b, `},"count":`...), g.Count)
	b = append(b, `,"rate":`...)
	b = appendFloats(b, g.Rate)
	b = append(b, `,"mean":`...)
	b = appendFloats(b, g.Mean)
	b = append(b, `,"error_ratio":`...)
	b = appendFloats(b, g.ErrorRate)
	b = append(b, `,"quantiles":{`...)
	for i, k := range sortedKeys(g.Quantiles) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, k), ':')
		b = appendFloats(b, g.Quantiles[k])
	}
	b = append(b, `},"error":`...)
	b = appendFloat(b, g.Error)
	if len(g.Value) > 0 {
		b = append(b, `,"value":`...)
		b = appendFloats(b, g.Value)
	}
	return append(b, '}')
}

// AppendJSON appends the response as encoding/json would write it: the page asks for hundreds of
// services every ten seconds.
func (r *ServicesResponse) AppendJSON(b []byte) []byte {
	b = slices.Grow(b, 4096*len(r.Services)) // about as long as it is with strips
	b = append(b, `{"start":`...)
	b = strconv.AppendInt(b, r.Start, 10)
	b = append(b, `,"end":`...)
	b = strconv.AppendInt(b, r.End, 10)
	b = r.Whole.appendJSON(b)
	b = r.Misnamed.appendJSON(b)
	b = append(b, `,"step":`...)
	b = strconv.AppendInt(b, r.Step, 10)
	b = appendList(append(b, `,"services":`...), r.Services, (*Service).appendJSON)
	return append(b, '}')
}

func (s *Service) appendJSON(b []byte) []byte {
	b = appendString(append(b, `{"name":`...), s.Name)
	if s.Environment != "" {
		b = appendString(append(b, `,"environment":`...), s.Environment)
	}
	b = strconv.AppendUint(append(b, `,"requests":`...), s.Requests, 10)
	if s.Effective != 0 {
		b = strconv.AppendUint(append(b, `,"effective":`...), s.Effective, 10)
	}
	b = appendFloat(append(b, `,"rate":`...), s.Rate)
	b = strconv.AppendUint(append(b, `,"errors":`...), s.Errors, 10)
	b = appendFloat(append(b, `,"error_ratio":`...), s.ErrorRate)
	b = appendFloat(append(b, `,"apdex":`...), s.Apdex)
	b = appendFloat(append(b, `,"apdex_t":`...), s.ApdexT)
	b = appendFloat(append(b, `,"mean":`...), s.Mean)
	b = appendQuantiles(b, s.Quantiles)
	b = appendFloat(append(b, `,"error":`...), s.Error)
	b = appendFloats(append(b, `,"sparkline":{"rate":`...), s.Sparkline.Rate)
	b = append(appendFloats(append(b, `,"p95":`...), s.Sparkline.P95), '}')
	if s.Strip != nil {
		b = s.Strip.appendJSON(append(b, `,"strip":`...))
	}
	if s.Weighted {
		b = append(b, `,"weighted":true`...)
	}
	if s.Now != nil {
		b = s.Now.appendJSON(append(b, `,"now":`...))
	}
	if s.Usual != nil {
		b = s.Usual.appendJSON(append(b, `,"usual":`...))
	}
	if s.State != "" {
		b = appendString(append(b, `,"state":`...), string(s.State))
	}
	if len(s.Outside) > 0 {
		b = appendAny(append(b, `,"outside":`...), s.Outside)
	}
	if s.Why != "" {
		b = appendString(append(b, `,"why":`...), s.Why)
	}
	if s.Whom != nil {
		b = appendAny(append(b, `,"whom":`...), s.Whom)
	}
	if s.LatestMark != nil {
		b = appendAny(append(b, `,"latest_mark":`...), s.LatestMark)
	}
	return append(b, '}')
}

func (s *Strip) appendJSON(b []byte) []byte {
	b = appendFloats(append(b, `{"bounds":`...), s.Bounds)
	b = appendInts(append(b, `,"from":`...), s.From)
	b = appendList(append(b, `,"counts":`...), s.Counts, func(counts *[]uint64, b []byte) []byte {
		return appendInts(b, *counts)
	})
	return append(b, '}')
}

func (n *ServiceNow) appendJSON(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"start":`...), n.Start, 10)
	b = strconv.AppendInt(append(b, `,"end":`...), n.End, 10)
	b = strconv.AppendUint(append(b, `,"requests":`...), n.Requests, 10)
	b = appendFloat(append(b, `,"rate":`...), n.Rate)
	b = strconv.AppendUint(append(b, `,"errors":`...), n.Errors, 10)
	b = appendFloat(append(b, `,"error_ratio":`...), n.ErrorRate)
	b = appendQuantiles(b, n.Quantiles)
	b = appendFloat(append(b, `,"apdex":`...), n.Apdex)
	if n.Last != 0 {
		b = strconv.AppendInt(append(b, `,"last":`...), n.Last, 10)
	}
	return append(b, '}')
}

func (u *ServiceUsual) appendJSON(b []byte) []byte {
	b = appendString(append(b, `{"of":`...), u.Of)
	b = strconv.AppendInt(append(b, `,"minutes":`...), int64(u.Minutes), 10)
	b = u.Rate.appendJSON(append(b, `,"rate":`...))
	b = u.Errors.appendJSON(append(b, `,"error_ratio":`...))
	b = u.P50.appendJSON(append(b, `,"p50":`...))
	b = u.P99.appendJSON(append(b, `,"p99":`...))
	if u.Apdex != nil {
		b = u.Apdex.appendJSON(append(b, `,"apdex":`...))
	}
	return append(b, '}')
}

func (u *UsualBand) appendJSON(b []byte) []byte {
	b = appendFloat(append(b, `{"middle":`...), u.Middle)
	b = appendFloat(append(b, `,"low":`...), u.Low)
	b = appendFloat(append(b, `,"high":`...), u.High)
	return append(b, '}')
}

// appendQuantiles appends the field quantiles and its comma.
func appendQuantiles(b []byte, of map[string]Float) []byte {
	b = append(b, `,"quantiles":{`...)
	for i, k := range sortedKeys(of) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendFloat(append(appendString(b, k), ':'), of[k])
	}
	return append(b, '}')
}

// appendAny leaves to encoding/json what is small.
func appendAny(b []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil { // what answers are made of always marshals
		return append(b, "null"...)
	}
	return append(b, text...)
}

func appendFloats(b []byte, fs []Float) []byte {
	b = append(b, '[')
	for i, f := range fs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendFloat(b, f)
	}
	return append(b, ']')
}

// appendList appends a list whose elements append themselves.
func appendList[T any](b []byte, list []T, element func(*T, []byte) []byte) []byte {
	b = append(b, '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = element(&list[i], b)
	}
	return append(b, ']')
}

// short is the text of a number below 1000 with a comma behind it, the first byte lowest, and
// its length.
type short struct{ text, size uint32 }

// shorts are those of all such numbers: most of a heatmap's are, and a copy of four bytes is a
// fraction of what strconv takes.
var shorts = makeShorts()

func makeShorts() (out [1000]short) {
	for n := range out {
		text := append(strconv.AppendInt(nil, int64(n), 10), ',')
		for i, c := range text {
			out[n].text |= uint32(c) << (8 * i)
		}
		out[n].size = uint32(len(text))
	}
	return out
}

// appendInts appends a list of integers.
func appendInts[T int | int64 | uint64](b []byte, ns []T) []byte {
	b = append(b, '[')
	for _, n := range ns {
		switch {
		case uint64(n) < uint64(len(shorts)):
			s := &shorts[n]
			b = binary.LittleEndian.AppendUint32(b, s.text)
			b = b[:len(b)-4+int(s.size)]
		case n < 0:
			b = append(strconv.AppendInt(b, int64(n), 10), ',')
		default:
			b = append(strconv.AppendUint(b, uint64(n), 10), ',')
		}
	}
	if len(ns) > 0 {
		b = b[:len(b)-1] // the last comma
	}
	return append(b, ']')
}

// appendFloat writes numbers as ECMAScript does, which is what encoding/json writes.
func appendFloat(b []byte, f Float) []byte {
	v := float64(f)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(b, "null"...)
	}
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		b = strconv.AppendFloat(b, v, 'e', -1, 64)
		if n := len(b); n >= 4 && b[n-4] == 'e' && (b[n-3] == '-' || b[n-3] == '+') && b[n-2] == '0' {
			b[n-2] = b[n-1] // e-09 is written e-9
			b = b[:n-1]
		}
		return b
	}
	return strconv.AppendFloat(b, v, 'f', -1, 64)
}

// appendString writes plain strings itself and leaves the rest to encoding/json.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c >= utf8.RuneSelf {
			q, err := json.Marshal(s)
			if err != nil { // a string always marshals
				return append(b, `""`...)
			}
			return append(b, q...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
