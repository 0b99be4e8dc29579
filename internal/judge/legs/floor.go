package legs

import (
	"math"

	"tailscope/stat"
)

// findFloor works out the noise floor: the end of the interval of control
// against primary that is further from no difference.
func (j *judged) findFloor(f figures, control, primary string, o stat.Options) error {
	floor, err := j.change(f, primary, control, o)
	if err != nil {
		return err
	}
	j.floor, j.noise = &floor, math.Inf(1)
	if floor.Short == "" {
		j.noise = max(j.noiseOfBuckets(), -floor.CI.Low, floor.CI.High)
	}
	return nil
}

// noiseOfBuckets is what buckets hide of a ratio, whose middle is 1 whatever is
// measured. Of two sides they hide the same.
func (j *judged) noiseOfBuckets() float64 {
	if j.kind != ofRatios || !(j.effect.ErrorB > 0) {
		return 0
	}
	return math.Log1p(j.effect.ErrorB)
}

// beyond says that the interval lies wholly on one side, outside the floor and what is
// allowed.
func (j *judged) beyond() bool {
	if j.gate != nil {
		e, _ := j.gate.Judge(&j.effect, j.noise)
		return e.Sure
	}
	return j.effect.Short == "" && (j.effect.CI.Low > j.noise || j.effect.CI.High < -j.noise)
}

// claimed says that there is an effect, allowing for all that was looked at.
func (j *judged) claimed() bool { return j.beyond() && j.adjusted <= discovery }

// shownNoise is the noise as a share or a difference.
func (j *judged) shownNoise() float64 {
	if j.effect.Log {
		return math.Expm1(j.noise)
	}
	return j.noise
}
