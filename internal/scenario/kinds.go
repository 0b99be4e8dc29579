package scenario

import (
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/bench/threshold"
	"tailscope/internal/strictyaml"
)

// kinds are the scalars of files.
var kinds = strictyaml.With(strictyaml.Kinds{
	"span": {Read: readSpan, Schema: strictyaml.Pattern(`^([0-9.]+(ns|us|µs|ms|s|m|h))+$`)},
	"number": {Read: func(t *text, s string) (string, string) {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || !(f > 0) || math.IsInf(f, 0) {
			return fmt.Sprintf("%q is not a number above 0", s), ""
		}
		t.Number = f
		return "", ""
	}, Schema: strictyaml.Either(`^[0-9.eE+-]+$`)},
	"whole": strictyaml.Whole(1, math.MaxInt64, "write a number from 1 on"),
	"port":  strictyaml.Whole(1, 65535, "write a number from 1 to 65535"),
	"seed": {Read: func(_ *text, s string) (string, string) {
		if _, err := strconv.ParseUint(s, 10, 64); err != nil {
			return fmt.Sprintf("%q is not a seed", s), "write a whole number from 0 on"
		}
		return "", ""
	}, Schema: strictyaml.Either(`^[0-9]+$`)},
	"request": {Read: func(_ *text, s string) (string, string) {
		method, target, ok := strings.Cut(s, " ")
		if !ok || !methodName.MatchString(method) || !strings.HasPrefix(target, "/") && !strings.Contains(target, "://") {
			return fmt.Sprintf("%q is not a request", s), "write method and path: POST /docs/update"
		}
		if _, err := http.NewRequest(method, target, nil); err != nil {
			return fmt.Sprintf("%q is not a request", s), "write method and path: POST /docs/update"
		}
		return "", ""
	}, Schema: strictyaml.Pattern(`^[A-Z]+ .+`)},
	"statuses": {Read: strictyaml.Anything, Schema: strictyaml.Either(`^[1-5]([0-9][0-9]|xx)(\.\.[1-5][0-9][0-9])?$`)},
	"threshold": {Read: func(_ *text, s string) (string, string) {
		if _, err := threshold.Parse(s); err != nil {
			return parted(err)
		}
		return "", ""
	}, Schema: strictyaml.M{"type": "string"}},
})

var methodName = regexp.MustCompile(`^[A-Z]+$`)

// readSpan reads a duration of Go's, such as 500ms or 1m30s.
func readSpan(t *text, s string) (message, hint string) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		hint := "write one such as 500ms, 10s or 5m"
		if _, err := strconv.ParseFloat(s, 64); err == nil {
			hint = "a duration needs a unit: write " + s + "s or " + s + "m"
		}
		return fmt.Sprintf("%q is not a duration", s), hint
	}
	t.Duration = d
	return "", ""
}

// parted splits an error that ends in (hint: …).
func parted(err error) (message, hint string) {
	message, hint, _ = strings.Cut(err.Error(), " (hint: ")
	return message, strings.TrimSuffix(hint, ")")
}
