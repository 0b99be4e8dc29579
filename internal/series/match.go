package series

import (
	"regexp"
	"strings"
)

// Either is the pattern of any of the values, for matchers.
func Either(values ...string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = regexp.QuoteMeta(v)
	}
	return strings.Join(quoted, "|")
}
