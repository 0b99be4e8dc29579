package rounds

import "slices"

// Contrast is a comparison within rounds: the sum of the settings' log figures
// times Weights, which sum to 0.
type Contrast struct {
	Setting, Against string
	// Effect is "main" or "interaction" of a factorial design, else empty.
	Effect  string
	Weights []float64 // by setting
	Simple  bool      // one setting against one other
}

// Against compares every setting with the first, the control (Dunnett's question;
// probabilities are adjusted by Benjamini & Hochberg).
func Against(settings []string) []Contrast {
	var out []Contrast
	for i := 1; i < len(settings); i++ {
		out = append(out, pair(settings, i, 0))
	}
	return out
}

func pair(settings []string, i, j int) Contrast {
	c := Contrast{Setting: settings[i], Against: settings[j], Weights: make([]float64, len(settings)), Simple: true}
	c.Weights[i], c.Weights[j] = 1, -1
	return c
}

// Factor is a variable of a factorial design; its first level is the control's.
type Factor struct {
	Name   string
	Levels []string
}

// Factorial are the main effects and the interactions of two variables of a full
// factorial design (Yates 1937, The Design and Analysis of Factorial Experiments;
// Box, Hunter & Hunter 2005, chapter 5). Levels[s] are the indices of setting s's
// levels. A main effect is the mean, over all combinations of the others, of what
// a level changes against the control's; an interaction is by how much more
// (as a ratio of ratios) one variable changes with the other changed.
func Factorial(factors []Factor, levels [][]int) []Contrast {
	var out []Contrast
	for f, factor := range factors {
		for l := 1; l < len(factor.Levels); l++ {
			c := Contrast{Setting: factor.Name + "=" + factor.Levels[l], Against: factor.Name + "=" + factor.Levels[0], Effect: "main", Weights: make([]float64, len(levels))}
			for s, at := range levels {
				switch at[f] {
				case l:
					c.Weights[s] = 1
				case 0:
					c.Weights[s] = -1
				}
			}
			out = append(out, c.scaled())
		}
	}
	for f := range factors {
		for g := f + 1; g < len(factors); g++ {
			for l := 1; l < len(factors[f].Levels); l++ {
				for m := 1; m < len(factors[g].Levels); m++ {
					c := Contrast{Setting: factors[f].Name + "=" + factors[f].Levels[l] + " × " + factors[g].Name + "=" + factors[g].Levels[m], Against: "each by itself", Effect: "interaction", Weights: make([]float64, len(levels))}
					for s, at := range levels {
						a, b := at[f], at[g]
						switch {
						case a == l && b == m, a == 0 && b == 0:
							c.Weights[s] = 1
						case a == l && b == 0, a == 0 && b == m:
							c.Weights[s] = -1
						}
					}
					out = append(out, c.scaled())
				}
			}
		}
	}
	return out
}

// scaled makes a contrast the mean over the combinations of the other variables.
func (c Contrast) scaled() Contrast {
	plus := 0.0
	for _, w := range c.Weights {
		plus += max(0, w)
	}
	per := plus
	if c.Effect == "interaction" {
		per = plus / 2
	}
	c.Weights = slices.Clone(c.Weights)
	for i := range c.Weights {
		c.Weights[i] /= per
	}
	return c
}
