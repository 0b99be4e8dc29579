package otlp

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/observe/semconv"
	"tailscope/internal/series"
)

// pointLabels returns the labels of a metric's series: those of the resource under the
// names that spans have too (service, instance, version, variant, tenant, where it runs,
// extra labels),
// then the point's own attributes by their normalised names. An attribute whose name is
// taken gets the prefix exported_; two that normalise to one name are joined with ;, the
// first name first.
func (d *decoder) pointLabels(b []byte, attributes int32, quantile float64) (labels.Labels, error) {
	type pair struct{ key, value string }
	var own []pair
	d.beginAttributes()
	var f field
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return labels.EmptyLabels(), err
		}
		if f.number != attributes || f.wire != bytesT {
			continue
		}
		key, value, err := keyValue(f.data)
		if err != nil {
			return labels.EmptyLabels(), err
		}
		if s, rank := d.r.keys.Find(view(key)); rank != 0 && (s == semconv.Tenant || s == semconv.Variant || s >= semconv.Extra) {
			if err := d.setValue(s, rank, value); err != nil {
				return labels.EmptyLabels(), err
			}
			continue
		}
		text, err := appendValue(nil, value, 0)
		if err != nil {
			return labels.EmptyLabels(), err
		}
		if len(text) > 0 && len(key) > 0 {
			own = append(own, pair{string(key), cloneLabel(string(text))})
		}
	}
	d.readTexts(d.present)
	out := map[string]string{}
	set := func(name, value string) {
		if value != "" {
			out[name] = value
		}
	}
	set(series.LabelService, d.res.service())
	set(series.LabelInstance, d.res.attrs.Get(semconv.Instance))
	set(series.LabelVersion, d.res.attrs.Get(semconv.Version))
	set(series.LabelVariant, d.either(semconv.Variant))
	set(series.LabelTenant, d.either(semconv.Tenant))
	set(series.LabelEnvironment, d.place(semconv.Environment))
	set(series.LabelNamespace, d.place(semconv.Namespace))
	set(series.LabelK8s, d.place(semconv.K8sNamespace))
	set(series.LabelWorkload, d.place(semconv.Workload))
	for i, name := range d.r.keys.Extras {
		set(name, d.either(semconv.Extra+semconv.Slot(i)))
	}
	if !math.IsNaN(quantile) {
		out["quantile"] = strconv.FormatFloat(quantile, 'g', -1, 64)
	}
	taken := make(map[string]bool, len(out))
	for name := range out {
		taken[name] = true
	}
	slices.SortFunc(own, func(a, b pair) int { return strings.Compare(a.key, b.key) })
	for _, p := range own {
		name := semconv.LabelName(p.key)
		if strings.HasPrefix(name, "__") {
			name = "key" + name // such names are Prometheus' own
		}
		if taken[name] || name == "le" {
			name = "exported_" + name
		}
		if old, ok := out[name]; ok {
			out[name] = old + ";" + p.value
		} else {
			out[name] = p.value
		}
	}
	return labels.FromMap(out), nil
}

const maxDepth = 8

// appendValue appends an AnyValue as text: arrays and maps as JSON, bytes in
// base 64.
func appendValue(dst, b []byte, depth int) ([]byte, error) {
	if depth > maxDepth || len(dst) > 4*semconv.MaxValue {
		return dst, checkMessage(b)
	}
	var f, found field
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return dst, err
		}
		if f.number <= 7 {
			found = f
		}
	}
	quote := func(s string) {
		if depth == 0 {
			dst = append(dst, s...)
		} else {
			dst = strconv.AppendQuote(dst, s)
		}
	}
	switch {
	case found.number == 1 && found.wire == bytesT:
		s := view(found.data)
		if !utf8.ValidString(s) {
			s = strings.ToValidUTF8(s, "\uFFFD")
		}
		quote(s)
	case found.number == 2 && found.wire == varint:
		dst = strconv.AppendBool(dst, found.num != 0)
	case found.number == 3 && found.wire == varint:
		dst = strconv.AppendInt(dst, int64(found.num), 10)
	case found.number == 4 && found.wire == fixed64:
		dst = strconv.AppendFloat(dst, math.Float64frombits(found.num), 'g', -1, 64)
	case found.number == 5 && found.wire == bytesT, found.number == 6 && found.wire == bytesT:
		list := found.number == 5
		open, closing := byte('{'), byte('}')
		if list {
			open, closing = '[', ']'
		}
		dst = append(dst, open)
		n := 0
		for i := 0; i < len(found.data); {
			var err error
			if i, err = f.next(found.data, i); err != nil {
				return dst, err
			}
			if f.number != 1 || f.wire != bytesT {
				continue
			}
			if n++; n > 1 {
				dst = append(dst, ',')
			}
			element := f.data
			if !list {
				key, value, err := keyValue(f.data)
				if err != nil {
					return dst, err
				}
				dst = strconv.AppendQuote(dst, string(key))
				dst = append(dst, ':')
				element = value
			}
			if dst, err = appendValue(dst, element, depth+1); err != nil {
				return dst, err
			}
		}
		dst = append(dst, closing)
	case found.number == 7 && found.wire == bytesT:
		quote(base64.StdEncoding.EncodeToString(found.data[:min(len(found.data), semconv.MaxValue)]))
	}
	return dst, nil
}
