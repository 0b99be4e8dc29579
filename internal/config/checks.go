package config

import (
	"net/url"
	"path/filepath"
	"strings"
)

// validateChecks checks the names only. The start of the server checks the files, and so
// does tailscope check validate.
func (c *Config) validateChecks(bad func(key, format string, args ...any)) {
	for _, p := range c.Checks {
		if _, err := filepath.Match(p, ""); err != nil {
			bad("checks", "%q is not a pattern of files: write one such as /etc/tailscope/checks/*.yaml", p)
		}
	}
	if c.PageURL == "" {
		return
	}
	if u, err := url.Parse(c.PageURL); err != nil || !strings.HasPrefix(u.Scheme, "http") || u.Host == "" {
		bad("page_url", "%q is not a web address: write one such as https://tailscope.example", c.PageURL)
	}
}
