package judge

import "testing"

func TestWhere(t *testing.T) {
	for _, c := range []struct{ service, environment, of, want string }{
		{"shop", "", "", "shop"},
		{"shop", "staging", "", "shop in staging"},
		{"shop", "staging", "GET /cart", "GET /cart of shop in staging"},
		{"", "", "queue_length", "queue_length"},
		{"", "staging", "queue_length", "queue_length in staging"},
		{"a\nb", "", "GET /", "GET / of \"a\\nb\""},
	} {
		if got := Where(c.service, c.environment, c.of); got != c.want {
			t.Errorf("%q %q %q: %s, want %s", c.service, c.environment, c.of, got, c.want)
		}
	}
}
