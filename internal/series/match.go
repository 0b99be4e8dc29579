package series

import (
	"regexp"
	"strings"
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
