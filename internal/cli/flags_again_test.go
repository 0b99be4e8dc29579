package cli

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"

	"tailscope/internal/config"
)

// A flag of several values that is given again adds to what it was given before,
// whether its values are parted by commas or by being given again; what the file
// says is replaced by either.
func TestFlagsGivenAgain(t *testing.T) {
	var o overrides
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.register(fs)
	err := fs.Parse([]string{
		"--set", "mirror.method=GET,HEAD", "--set", "mirror.method=POST",
		"--set", "mirror.rewrite=^/a=/b", "--set", "mirror.rewrite=^/b=/c",
		"--set", "mirror.share=0.5", "--set", "mirror.share=0.25",
	})
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Mirror.Methods, c.Mirror.Rewrite = []string{"PUT"}, []string{"^/x=/y"}
	o.apply(&c)
	if got, want := c.Mirror.Methods, []string{"GET", "HEAD", "POST"}; !slices.Equal(got, want) {
		t.Errorf("methods %q, want %q", got, want)
	}
	if got, want := c.Mirror.Rewrite, []string{"^/a=/b", "^/b=/c"}; !slices.Equal(got, want) {
		t.Errorf("rewrite %q, want %q", got, want)
	}
	if c.Mirror.Share != 0.25 {
		t.Errorf("share %v, want the last", c.Mirror.Share)
	}
}
