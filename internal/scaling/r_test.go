//go:build servers

package scaling

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
)

// What R's usl does for its method "nls", and confint of MASS for what is inside
// the bounds. Input and output are lines of numbers: n, the concurrencies, the rates;
// then λ, σ, κ, and the intervals of each or NA.
const usl = `
suppressMessages(library(MASS))
options(digits = 12)
lines <- strsplit(readLines(file("stdin")), " ")
for (line in lines) {
  v <- as.numeric(line); n <- v[1]
  d <- data.frame(x = v[2:(n + 1)], y = v[(n + 2):(2 * n + 1)])
  law <- y ~ (gamma * x) / (1 + alpha * (x - 1) + beta * x * (x - 1))
  f <- nls(law, data = d, start = c(gamma = max(d$y / d$x), alpha = 0.01, beta = 0.0001), algorithm = "port",
           lower = c(gamma = 0, alpha = 0, beta = 0), upper = c(gamma = Inf, alpha = 1, beta = 1))
  best <- coef(f)
  ends <- rep(NA, 6)
  if (best["alpha"] > 0 && best["beta"] > 0) {
    free <- try(nls(law, data = d, start = best), silent = TRUE)
    if (!inherits(free, "try-error")) {
      i <- try(suppressMessages(confint(free)), silent = TRUE)
      if (!inherits(i, "try-error")) ends <- as.vector(t(i))
    }
  }
  ends <- ifelse(is.finite(ends), formatC(ends, digits = 12, format = "g"), "null")
  cat("[", paste(c(formatC(best, digits = 12, format = "g"), ends), collapse = ","), "]\n", sep = "")
}
`

// The fit agrees with R's within 1 %, on published data and on laws with noise.
func TestAsR(t *testing.T) {
	if _, err := exec.LookPath("Rscript"); err != nil {
		t.Fatal("Rscript is not installed: run scripts/install-servers")
	}
	sets := datasets(t)
	random := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		p := params{math.Exp(7 * random.Float64()), 0.3 * random.Float64(), math.Pow(10, -5+4*random.Float64())}
		d := dataset{name: "made up"}
		for i := range 8 + random.IntN(12) {
			n := math.Pow(1.5, float64(i))
			d.n, d.x = append(d.n, n), append(d.x, p.rate(n)*(1+0.02*random.NormFloat64()))
		}
		sets = append(sets, d)
	}
	var in bytes.Buffer
	for _, d := range sets {
		line := []float64{float64(len(d.n))}
		text, err := json.Marshal(append(append(line, d.n...), d.x...))
		if err != nil {
			t.Fatal(err)
		}
		in.WriteString(strings.ReplaceAll(strings.Trim(string(text), "[]"), ",", " ") + "\n")
	}
	cmd := exec.Command("Rscript", "-e", usl)
	cmd.Stdin = &in
	var said, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, errs.Bytes())
	}
	intervals := 0
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	if len(lines) != len(sets) {
		t.Fatalf("R answered %d of %d:\n%s", len(lines), len(sets), errs.Bytes())
	}
	for i, line := range lines {
		var r []*float64
		if err := json.Unmarshal([]byte(line), &r); err != nil || len(r) != 9 {
			t.Fatalf("R said %q: %v", line, err)
		}
		l, err := Fit(points(sets[i].n, sets[i].x), Options{})
		if err != nil {
			t.Fatal(err)
		}
		name := sets[i].name
		if name == "gunther" {
			continue // no noise: R's interval is rounding
		}
		scale := 1 / float64(l.Highest) // of κ and σ that hardly matter
		// Where the interval of one reaches a bound, of which confint does not know, those
		// of the others are cut too.
		inside := true
		for _, end := range r[3:] {
			inside = inside && end != nil && *end > 0
		}
		for j, v := range []Value{l.Lambda, l.Sigma, l.Kappa} {
			what := name + "'s " + []string{"λ", "σ", "κ"}[j]
			floor := []float64{0, 1e-3 * scale, 1e-3 * scale * scale}[j]
			for k, pair := range [][2]float64{{v.Value, *r[j]}, {v.Low, value(r[3+2*j])}, {v.High, value(r[4+2*j])}} {
				if k > 0 && !inside {
					continue
				}
				if k > 0 {
					intervals++
				}
				if math.Abs(pair[0]-pair[1]) > 0.01*math.Abs(pair[1])+floor {
					t.Errorf("%d: %s, %s: %.6g, R says %.6g", i, what, []string{"value", "low", "high"}[k], pair[0], pair[1])
				}
			}
		}
	}
	t.Logf("%d data sets and %d ends of intervals", len(sets), intervals)
	if intervals < 100 {
		t.Errorf("only %d ends of intervals were compared", intervals)
	}
}

func value(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}
