package expr

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// Now is the moment of the examples.
var Now = now

// BischeckOnStore are those of Bischeck's examples that read no stored null, of
// which a store has none, and nothing farther away than a tolerance, with what
// they come to under strict. Each yields the samples of their series, newest first.
func BischeckOnStore(each func(l labels.Labels, samples []Sample)) (examples [][2]string) {
	var full fake
	for _, s := range bischeck {
		holes := false
		for _, v := range s.samples {
			holes = holes || math.IsNaN(v.Value)
		}
		if !holes {
			full = append(full, s)
			each(s.labels, s.samples)
		}
	}
	for _, c := range bischeckExamples() {
		p, err := Parse(c.src, Options{Old: true})
		if err != nil || len(p.selectors) == 0 {
			continue
		}
		all := true
		for _, s := range p.selectors {
			found, err := full.Look(context.Background(), s, now, nil)
			all = all && err == nil && (!found[0].Null || s.By == ByIndex) && s.Ago < time.Hour && known(full, s)
		}
		if all {
			examples = append(examples, [2]string{c.src, c.strict})
		}
	}
	return examples
}

func known(f fake, s *Selector) bool {
	all := *s
	all.By, all.From, all.To = ByIndexRange, 0, END
	got, err := f.Look(context.Background(), &all, now, nil)
	return err == nil && !got[0].Null
}

var FormatNumber = formatNumber
