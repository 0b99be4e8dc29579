package judge

import (
	"strconv"
	"strings"
	"unicode"
)

// Where returns what something is of, in a sentence: GET /cart of shop in staging. Of is an
// operation or a metric; what is empty is left out.
func Where(service, environment, of string) string {
	text := Printed(service)
	if of != "" {
		if text != "" {
			text = " of " + text
		}
		text = Printed(of) + text
	}
	if environment != "" {
		text += " in " + Printed(environment)
	}
	return text
}

// Printed quotes what has characters that cannot be printed.
func Printed(s string) string {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return strconv.Quote(s)
	}
	return s
}
