package scenario

import (
	"net/http"
	"regexp"
	"strings"

	"tailscope/internal/experiment/bench/threshold"
	"tailscope/internal/strictyaml"
)

var leaves = strictyaml.WithLeaves(strictyaml.Leaves{
	"request": strictyaml.Checked(func(s string) error {
		method, target, ok := strings.Cut(s, " ")
		if ok && methodName.MatchString(method) && (strings.HasPrefix(target, "/") || strings.Contains(target, "://")) {
			if _, err := http.NewRequest(method, target, nil); err == nil {
				return nil
			}
		}
		return strictyaml.Wrong("write method and path: POST /docs/update", "%q is not a request", s)
	}, strictyaml.Pattern(`^[A-Z]+ .+`)),
	"statuses": strictyaml.Checked(nil, strictyaml.Either(`^[1-5]([0-9][0-9]|xx)(\.\.[1-5][0-9][0-9])?$`)),
	"threshold": strictyaml.Checked(func(s string) error {
		if _, err := threshold.Parse(s); err != nil {
			message, hint := parted(err)
			return strictyaml.Wrong(hint, "%s", message)
		}
		return nil
	}, strictyaml.M{"type": "string"}),
})

var methodName = regexp.MustCompile(`^[A-Z]+$`)

// parted splits an error that ends in (hint: …).
func parted(err error) (message, hint string) {
	message, hint, _ = strings.Cut(err.Error(), " (hint: ")
	return message, strings.TrimSuffix(hint, ")")
}
