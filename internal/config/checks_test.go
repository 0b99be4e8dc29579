package config

import (
	"slices"
	"testing"
)

func TestChecks(t *testing.T) {
	c := Default()
	if errs := c.File("f", []byte("checks: ['*.yaml', /etc/tailscope/checks/*.yaml]\npage_url: https://tailscope.example\n")); errs != nil {
		t.Fatal(errs)
	}
	want := []string{"*.yaml", "/etc/tailscope/checks/*.yaml"}
	if !slices.Equal(c.Checks, want) || c.Validate() != nil {
		t.Fatalf("got %q, %v", c.Checks, c.Validate())
	}
	var back Config
	if errs := back.File("printed", []byte(c.YAML())); errs != nil || !slices.Equal(back.Checks, want) {
		t.Errorf("printed and read again: %q, %v", back.Checks, errs)
	}
	if errs := c.Environ([]string{"TAILSCOPE_CHECKS=a.yaml,b.yaml"}); errs != nil || !slices.Equal(c.Checks, []string{"a.yaml", "b.yaml"}) {
		t.Errorf("from the environment: %q, %v", c.Checks, errs)
	}
	c.Checks, c.PageURL = []string{"a["}, "tailscope.example"
	want2 := `checks: "a[" is not a pattern of files: write one such as /etc/tailscope/checks/*.yaml
page_url: "tailscope.example" is not a web address: write one such as https://tailscope.example`
	if err := c.Validate(); err == nil || err.Error() != want2 {
		t.Errorf("got\n%v\nwant\n%s", err, want2)
	}
}
