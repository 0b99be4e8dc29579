// Package queueing holds closed forms of queueing theory, to check the simulation,
// and to answer at once where they are the whole answer.
//
// Rates are per second, times in seconds, utilisation ρ is in [0, 1). Functions
// return +Inf for a queue that cannot keep up. Names follow Kendall: M/M/c has
// Poisson arrivals, exponential service and c servers; G is any service, D a constant
// one.
package queueing

import "math"

// MMC is the queue with Poisson arrivals, exponential service and Servers servers, in
// order of arrival.
type MMC struct {
	Rate    float64 // arrivals a second
	Service float64 // mean, seconds
	Servers int
}

// Utilisation is ρ, the share of time a server is busy.
func (q MMC) Utilisation() float64 { return q.Rate * q.Service / float64(q.Servers) }

// Delayed returns the share of arrivals that find all servers busy: Erlang's C, by the
// recursion of his B formula (Cooper 1981, Introduction to Queueing Theory, 3.4).
func (q MMC) Delayed() float64 {
	if q.Utilisation() >= 1 {
		return 1
	}
	a, b := q.Rate*q.Service, 1.0
	for i := 1; i <= q.Servers; i++ {
		b = a * b / (float64(i) + a*b)
	}
	return b / (1 - q.Utilisation()*(1-b))
}

// Wait returns the mean wait for a server.
func (q MMC) Wait() float64 {
	if q.Utilisation() >= 1 {
		return math.Inf(1)
	}
	return q.Delayed() * q.Service / (float64(q.Servers) * (1 - q.Utilisation()))
}

// Response returns the mean time from arrival to the end of service. It is the same if
// servers are shared equally by all (the number present has the same law).
func (q MMC) Response() float64 { return q.Wait() + q.Service }

// WaitAbove returns the share of arrivals that wait longer than t: C·e^(−(cμ−λ)t).
func (q MMC) WaitAbove(t float64) float64 {
	return q.Delayed() * math.Exp(-(float64(q.Servers)/q.Service-q.Rate)*t)
}

// ResponseAbove returns the share that takes longer than t, waiting included: the sum of the
// wait and an independent exponential service.
func (q MMC) ResponseAbove(t float64) float64 {
	mu, c := 1/q.Service, q.Delayed()
	drain := float64(q.Servers)*mu - q.Rate
	if math.Abs(drain-mu) < 1e-9*mu {
		return math.Exp(-mu*t) * (1 + c*mu*t)
	}
	return (1-c)*math.Exp(-mu*t) + c*(drain*math.Exp(-mu*t)-mu*math.Exp(-drain*t))/(drain-mu)
}

// Quantile returns the p-quantile of the response time.
func (q MMC) Quantile(p float64) float64 { return Invert(q.ResponseAbove, p) }

// Invert finds where above, a share that falls with t, is 1−p.
func Invert(above func(t float64) float64, p float64) float64 {
	high := 1e-9
	for above(high) > 1-p {
		if high *= 2; math.IsInf(high, 1) {
			return high
		}
	}
	low := 0.0
	for range 100 {
		if m := (low + high) / 2; above(m) > 1-p {
			low = m
		} else {
			high = m
		}
	}
	return high
}

// MG1 is the queue with one server in order of arrival and any service times, by
// their mean and second moment.
type MG1 struct {
	Rate    float64
	Service float64 // mean
	Second  float64 // mean of the square
}

// Wait returns the mean wait: λE[S²]/2(1−ρ) (Pollaczek 1930, Khinchine 1932).
func (q MG1) Wait() float64 {
	if q.Rate*q.Service >= 1 {
		return math.Inf(1)
	}
	return q.Rate * q.Second / (2 * (1 - q.Rate*q.Service))
}

// Response returns the mean time from arrival to the end of service.
func (q MG1) Response() float64 { return q.Wait() + q.Service }

// SharedResponse returns the mean response if all present share the server equally: E[S]/(1−ρ)
// whatever the distribution (Kleinrock 1967, JACM 14).
func (q MG1) SharedResponse() float64 {
	if q.Rate*q.Service >= 1 {
		return math.Inf(1)
	}
	return q.Service / (1 - q.Rate*q.Service)
}

// PausedResponse returns the mean response if the server stops now and then, work or
// not: after an exponential time of mean every since its last stop, for a time of
// which mean and second moment are given. Work resumes where it stopped (Avi-Itzhak &
// Naor 1963, Operations Research 11; as a queue with preemptive priority, whose upper
// class is the stops).
func (q MG1) PausedResponse(every, lasts, second float64) float64 {
	stops := 1 / every
	service := q.Service * (1 + stops*lasts)
	square := q.Second*(1+stops*lasts)*(1+stops*lasts) + q.Service*stops*second
	whole := MG1{q.Rate, service, square}
	return whole.Response() + stops*second/(2*(1+stops*lasts))
}

// MD1WaitAtMost returns the share of arrivals that wait at most t for one server whose
// service always takes as long (Erlang 1909; Crommelin 1932). Its terms alternate, so it
// is only for t up to some ten services.
func MD1WaitAtMost(rate, service, t float64) float64 {
	sum := 0.0
	for k := 0; float64(k)*service <= t; k++ {
		x := rate * (t - float64(k)*service)
		term := 0.0
		if k == 0 {
			term = math.Exp(x)
		} else if x > 0 {
			logFactorial, _ := math.Lgamma(float64(k) + 1)
			term = math.Exp(x + float64(k)*math.Log(x) - logFactorial)
		}
		if k%2 == 1 {
			term = -term
		}
		sum += term
	}
	return (1 - rate*service) * sum
}

// Births returns the mean response of a queue with Poisson arrivals whose service
// rate depends on the number present, by Little's law over the stationary law of a
// birth and death process. speed(n) is the sum of the rates at which the n present
// are served.
func Births(rate float64, speed func(n int) float64) float64 {
	weight, sum, present := 1.0, 1.0, 0.0
	for n := 1; n < 1_000_000; n++ {
		weight *= rate / speed(n)
		sum += weight
		present += float64(n) * weight
		if weight < 1e-16*sum && rate < speed(n) {
			return present / sum / rate
		}
	}
	return math.Inf(1)
}

// ClosedRate returns the requests a second of users who think for an exponential time
// and then wait for an exponential service by one of the servers (the machine
// repairman: Palm 1947; Scherr 1967).
func ClosedRate(users, servers int, think, service float64) float64 {
	weight, sum, busy := 1.0, 1.0, 0.0
	for n := 1; n <= users; n++ {
		working := float64(min(n, servers))
		weight *= float64(users-n+1) / think * service / working
		sum += weight
		busy += weight * working
		if sum > 1e100 {
			weight, sum, busy = weight/sum, 1, busy/sum
		}
	}
	return busy / sum / service
}
