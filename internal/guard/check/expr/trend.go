package expr

import (
	"math"
	"time"
)

// What functions make of lists of samples with their times, newest first and
// none of them null.

// line is the least-squares line through points: its height at the moment at, and
// its slope per second. Both are NaN with fewer than two times.
func line(points []Sample, at time.Time) (height, slope float64) {
	n := float64(len(points))
	var meanT, meanV float64
	for _, p := range points {
		meanT += p.Time.Sub(at).Seconds() / n
		meanV += p.Value / n
	}
	var tt, tv float64
	for _, p := range points {
		t := p.Time.Sub(at).Seconds() - meanT
		tt += t * t
		tv += t * (p.Value - meanV)
	}
	if tt == 0 {
		return math.NaN(), math.NaN()
	}
	slope = tv / tt
	return meanV - slope*meanT, slope
}

// forecast returns the line's value ahead seconds after at.
func forecast(points []Sample, at time.Time, ahead float64) float64 {
	height, slope := line(points, at)
	return height + slope*ahead
}

// slope is the line's, per hour.
func slope(points []Sample, at time.Time, _ float64) float64 {
	_, slope := line(points, at)
	return slope * 3600
}

// increase adds up what a counter grew by from sample to sample; after a fall it
// counts from 0.
func increase(points []Sample, _ time.Time, _ float64) float64 {
	if len(points) < 2 {
		return math.NaN()
	}
	sum := 0.0
	for i := len(points) - 1; i > 0; i-- {
		older, newer := points[i].Value, points[i-1].Value
		if newer < older {
			older = 0
		}
		sum += newer - older
	}
	return sum
}

// rate is increase per second between the oldest and the newest sample.
func rate(points []Sample, at time.Time, _ float64) float64 {
	if len(points) < 2 {
		return math.NaN()
	}
	return increase(points, at, 0) / points[0].Time.Sub(points[len(points)-1].Time).Seconds()
}
