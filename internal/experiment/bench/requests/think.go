package requests

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// think is the distribution of a user's wait before a request.
type think struct {
	from, to time.Duration // uniform between them; constant if they are equal
	mean     time.Duration // exponential, if not 0
}

// parseThink parses 1s, 1s..3s or exp 2s.
func parseThink(text string) (t think, err error) {
	if strings.TrimSpace(text) == "" {
		return t, nil
	}
	bad := func() (think, error) {
		return think{}, fmt.Errorf("%q is not a time to think (hint: write 1s, 1s..3s for anything between, or exp 2s for exponential ones of that mean)", text)
	}
	if mean, ok := strings.CutPrefix(strings.TrimSpace(text), "exp "); ok {
		if t.mean, err = time.ParseDuration(strings.TrimSpace(mean)); err != nil || t.mean <= 0 {
			return bad()
		}
		return t, nil
	}
	from, to, span := strings.Cut(text, "..")
	if !span {
		to = from
	}
	if t.from, err = time.ParseDuration(strings.TrimSpace(from)); err == nil {
		t.to, err = time.ParseDuration(strings.TrimSpace(to))
	}
	if err != nil || t.from < 0 || t.to < t.from {
		return bad()
	}
	return t, nil
}

func (t think) draw(rng *rand.Rand) time.Duration {
	switch {
	case t.mean > 0:
		return time.Duration(min(rng.ExpFloat64(), 100) * float64(t.mean))
	case t.to > t.from:
		return t.from + time.Duration(rng.Int64N(int64(t.to-t.from)+1))
	}
	return t.from
}
