package series

import (
	"regexp"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
)

// Either returns a regular expression, for matchers, that matches any of the values
// exactly.
func Either(values ...string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = regexp.QuoteMeta(v)
	}
	return strings.Join(quoted, "|")
}

// Matches reports whether labels satisfy all matchers. A label that is absent has the empty
// value.
func Matches(l labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(l.Get(m.Name)) {
			return false
		}
	}
	return true
}
