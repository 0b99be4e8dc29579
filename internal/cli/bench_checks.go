package cli

import (
	"fmt"
	"strings"

	"tailscope/internal/experiment/bench/requests"
)

// parseChecks reads conditions on answers as --check has them.
func parseChecks(texts []string) (requests.Check, error) {
	var c requests.Check
	for _, text := range texts {
		word, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
		rest = strings.TrimSpace(rest)
		pair := func(m *map[string]string) error {
			name, value, ok := strings.Cut(rest, "=")
			if !ok || strings.TrimSpace(name) == "" {
				return fmt.Errorf("--check %q: no value (hint: write it as '%s name=value'; * stands for any)", text, word)
			}
			if *m == nil {
				*m = map[string]string{}
			}
			(*m)[strings.TrimSpace(name)] = strings.TrimSpace(value)
			return nil
		}
		var err error
		if rest == "" {
			err = fmt.Errorf("--check %q says no condition (hint: such as 'status 200', 'contains total', 'json hits.total=3')", text)
		}
		switch {
		case err != nil:
		case word == "status":
			c.Status = append(c.Status, strings.FieldsFunc(rest, func(r rune) bool { return r == ',' || r == ' ' })...)
		case word == "contains":
			c.Contains = append(c.Contains, rest)
		case word == "matches":
			c.Matches = append(c.Matches, rest)
		case word == "size":
			c.Size = rest
		case word == "header":
			err = pair(&c.Header)
		case word == "json":
			err = pair(&c.JSON)
		default:
			err = fmt.Errorf("--check %q: %s is not known (hint: status, header, contains, matches, json or size)", text, word)
		}
		if err != nil {
			return c, err
		}
	}
	return c, nil
}
