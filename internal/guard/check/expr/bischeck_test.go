package expr

import (
	"math"
	"testing"
	"time"
)

// bischeck is a cache as Bischeck's documentation and tests have it: one value
// every five minutes, the newest first.
var bischeck = fake{
	numbers(`erpserver-orders-ediOrders`, 5*time.Minute, 100, 90, 80, 70, 60, 50, 40, 30, 20, 10, 5),
	numbers(`erpserver-orders-webOrders`, 5*time.Minute, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50),
	numbers(`erphost-orders-ediorders`, 5*time.Minute, 12, 24, 36, 48, 60, 72, 84, 96, 108, 120, 132),
	numbers(`erphost-orders-phoneorders`, 5*time.Minute, math.NaN(), 3, 6, math.NaN(), 9),
	numbers(`erphost-orders-state`, 5*time.Minute, 2, math.NaN()),
	numbers(`geoserver-route-finalroute`, 5*time.Minute, 4),
	// Names with everything that names may hold. Values 10, 9, … 1.
	numbers(`test\-server.ingby.com-service@first-_service.item_123`, 5*time.Minute, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1),
	numbers(`host2_score.ingby.com-service\-dash@-.service_item0. space`, 5*time.Minute, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1),
	numbers(`G1BS01-Beam35UTsonline/H/avg/weekend-UTsonline`, 5*time.Minute, 10, 9, 8),
	numbers(`erp1_host.my\-domain.com-service-item`, 5*time.Minute, 1, 2, 3),
	// 12, null, 24, null.
	numbers(`host1null-service1null-service_item1null`, 5*time.Minute, 12, math.NaN(), 24, math.NaN()),
	numbers(`host2null-service2null-service_item2null`, 5*time.Minute, 100),
	// 21 … 1, the eleventh is null: what its test of the cache holds.
	numbers(`cache-of-test`, 5*time.Minute, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, math.NaN(), 10, 9, 8, 7, 6, 5, 4, 3, 2, 1),
}

// bischeckExamples are what Bischeck documents and tests: strict is its default,
// skip its notFullListParse=true. Of what is marked "differs" its documentation,
// its code and we do not agree; the comment says how.
func bischeckExamples() []bischeckExample {
	const (
		a = `test\-server.ingby.com-service@first-_service.item_123`
		b = `host2_score.ingby.com-service\-dash@-.service_item0. space`
		n = `host1null-service1null-service_item1null`
		m = `host2null-service2null-service_item2null`
		u = `G1BS01-Beam35UTsonline/H/avg/weekend-UTsonline`
		c = `cache-of-test`
	)
	return []bischeckExample{
		// Configuration guide: service items, cache data, mathematical expressions.
		{`avg(erpserver-orders-ediOrders[0:9])`, "55", "55"},
		{`avg(erpserver-orders-ediOrders[0:9])/avg(erpserver-orders-webOrders[0:9])`, "1.1", "1.1"},
		{`erpserver-orders-ediOrders[0]`, "100", "100"},
		{`erpserver-orders-ediOrders[-30M]`, "40", "40"},
		{`erpserver-orders-ediOrders[-1800S]`, "40", "40"},
		{`sum(erpserver-orders-ediOrders[-30M:-40M])`, "90", "90"},
		{`sum(erphost-orders-ediorders[0:9])`, "660", "660"},
		{`sum(erphost-orders-ediorders[1,3,5])`, "144", "144"},
		{`erphost-orders-ediorders[0] / erphost-orders-ediorders[-30M]`, "0.142857", "0.142857"},
		{`max(erphost-orders-ediorders[-5M], erphost-orders-ediorders[-10M], erphost-orders-ediorders[-15M])`, "48", "48"},
		{`if((erpserver-orders-ediOrders[0] - erpserver-orders-ediOrders[1]) < 0,0,
		    erpserver-orders-ediOrders[0] - erpserver-orders-ediOrders[1])`, "10", "10"},
		{`if((erphost-orders-ediorders[0] - erphost-orders-ediorders[1]) < 0,0, erphost-orders-ediorders[0] - erphost-orders-ediorders[1])`, "0", "0"},
		{`avg(erp1_host.my\-domain.com-service-item[0:9])`, "2", "2"},
		{`erpserver-orders-ediOrders[0]*0.8`, "80", "80"},
		{`erphost-orders-ediorders[0] / geoserver-route-finalroute[0]`, "3", "3"},

		// Its section on null.
		{`erphost-orders-ediorders[99]`, "null", "null"},
		{`sum(erphost-orders-ediorders[0], erphost-orders-phoneorders[0]) * erphost-orders-state[0]`, "null", "24"},
		{`sum(erphost-orders-phoneorders[0], erphost-orders-phoneorders[3]) * erphost-orders-state[0]`, "null", "null"},
		{`sum(erphost-orders-ediorders[0], erphost-orders-ediorders[1]) * erphost-orders-state[1]`, "null", "null"},
		{`sum(erphost-orders-ediorders[0:100],erphost-orders-phoneorders[-5M:-15M]) * erphost-orders-state[0]`, "null", "1602"},
		{`avg(erphost-orders-ediorders[0] * 2, erphost-orders-phoneorders[0] * 3)`, "null", "null"},
		{`avg(multNull(erphost-orders-ediorders[0],2), multNull(erphost-orders-phoneorders[0],3))`, "null", "24"},
		{`avg(multNull(erphost-orders-phoneorders[0],2), multNull(erphost-orders-phoneorders[3],3))`, "null", "null"},

		// Its tests of functions.
		{`avg(1,2,3,4,5)`, "3", "3"},
		{`max(2,6,4,1,2)`, "6", "6"},
		{`min(2,6,4,1,2)/min(2,6,4,1,2)`, "1", "1"},
		{`avg(2,6,1,2)`, "2.75", "2.75"},
		{`avgNull(null,null,null,4,2)`, "3", "3"},
		{`avgNull(null,null,null,null,null)`, "null", "null"},
		{`sumNull(4,null,6)`, "10", "10"},
		{`multNull(4.0,6.0)`, "24", "24"},
		{`min(2,6,null,1,2)/min(2,6,4,null,2)`, "null", "0.5"},
		{`avg(null,null,null,4,2)`, "null", "3"},
		{`avg(2,6,null,1,2)`, "null", "2.75"},
		{`avg(2,6,null,1,2) / avg(1,3,null,1,1)`, "null", "1.83333"},
		{`avg(null,2,6,null,null,1,2,null) / sum(null,2,6,null,null,1,2,null) * 100`, "null", "25"},
		{`avg(2,6,1,2) / (sum(2,6,1,2) * max(2,6,100,1,2))`, "0.0025", "0.0025"},
		{`divNull(1, avg(2,6,1,2))`, "0.363636", "0.363636"},
		{`divNull(null, avg(2,6,null,1,2))`, "null", "null"},
		{`avg(null*2,2)`, "null", "null"},
		{`avg(multNull(null,2),2)`, "null", "2"},
		{`multNull(null,6.0)`, "null", "null"},
		{`multNull(avg(null, null),0.5)`, "null", "null"},
		{`avg( multNull(avg(null, 1),0.5) , 10)`, "null", "5.25"},
		{`avg( 20, multNull(avg(1),0.5) , 10)`, "10.1667", "10.1667"},
		{`avg(multNull(null,2), multNull(1,3))`, "null", "3"},
		{`avg(multNull(null,2), multNull(null,3))`, "null", "null"},
		{`avg(null, 6 ,max(null,null), 2, multNull(null,3), min(10,null,6))`, "null", "4.66667"},
		{`avg(9.250759E8, 9.3080077E8)* 1.2 / 1E9`, "1.11353", "1.11353"},
		{`multNull(avg(1.09064474E9, 1.07112954E9),0.5) / 1E8`, "5.40444", "5.40444"},
		{`avg(multNull(avg(9.250759E8, 9.3080077E8),1.2), multNull(avg(null, null),0.5), multNull(avg(1.09064474E9, 1.07112954E9),0.5)) / 1E8`, "null", "8.26985"},
		{`sum(null, null)`, "null", "null"},
		{`stddev(2, 4, 4, 4, 5, 5, 7, 9 )`, "2", "2"},
		{`stdev(2, 4, 4, 4, 5, 5, 7, 9 )`, "2", "2"}, // its documentation's name; its code knows stddev
		{`stddev(2, 4, 4, 4, null, 5, 5, 7, 9 )`, "null", "2"},
		{`avg(stddev(2, 4, 4, 4, 5, 5, 7, 9 ), multNull(4,stddev(2, 4, 4, 4, 5, 5, 7, 9 )))`, "5", "5"},
		{`median(2, 4)`, "3", "3"},
		{`median(2, 3, 4)`, "3", "3"},
		{`median(2, 3, 4, 5)`, "3.5", "3.5"},
		{`avgMad(25.33, 30.45, 22.43, 35.86, 30123.45, 50125.5)`, "28.5175", "28.5175"},
		{`avgMad(102, 104, 108, 160, 107, 60)`, "105.25", "105.25"},
		{`avgMadT(3, 102, 104, 108, 160, 107, 60)`, "105.25", "105.25"},
		{`round(2.123456,2)`, "2.12", "2.12"},
		{`round(2.123456,5)`, "2.12346", "2.12346"},
		{`ceil(2.123)`, "3", "3"},
		{`floor(2.123)`, "2", "2"},
		{`abs(-2.123)`, "2.123", "2.123"},
		{`mod(4,6)`, "4", "4"},
		{`sqrt(4)`, "2", "2"},
		{`sum(4,6)`, "10", "10"},
		{`ln(2)`, "0.693147", "0.693147"},
		{`log(10)`, "1", "1"},
		{`exp(2)`, "7.38906", "7.38906"},
		{`pow(2,2)`, "4", "4"},
		{`if(2 > 1, 1, -1)`, "1", "1"},
		{`if(2 < 1, 1, -1)`, "-1", "-1"},
		{`floor(rand())`, "0", "0"},

		// Its tests of virtual services.
		{`if ((` + a + `[2] - ` + b + `[1]) < 0, ` + a + `[2] - ` + b + `[9], 0)`, "7", "7"},
		{a + `[1] - ` + a + `[0]`, "-1", "-1"},
		{a + `[0] - ` + a + `[11]`, "null", "null"},
		{a + `[9]-` + a + `[0]`, "-9", "-9"},
		{a + `[4]*` + b + `[3]`, "42", "42"},
		{`sum(` + a + `[7]*` + a + `[1])/sum(` + b + `[3:7])`, "1.08", "1.08"},
		{a + `[0] * 0.8`, "8", "8"},
		{`10 * 0.8`, "8", "8"},
		{`avg(` + n + `[0],` + m + `[0])`, "56", "56"},
		{`avg(` + n + `[1],` + m + `[0])`, "null", "100"},
		{`avg(` + n + `[1],` + m + `[0]) * ` + n + `[1]`, "null", "null"},
		{`avg(` + n + `[1]*2,` + m + `[0])`, "null", "null"},
		{`avg(` + n + `[1], multNull(` + m + `[0], ` + n + `[1]))`, "null", "null"},
		{`avg(multNull(` + n + `[1],2),` + m + `[0])`, "null", "100"},
		{`avg(multNull(` + n + `[1],2), multNull(` + m + `[0],2),multNull(` + n + `[2],2))`, "null", "124"},
		{`avg(divNull(` + n + `[1],2), divNull(` + m + `[0],2),divNull(` + n + `[2],2))`, "null", "31"},
		{`avg(` + u + `[0],` + u + `[1])`, "9.5", "9.5"},

		// Its tests of the cache: what its ranges list, added up.
		{c + `[0]`, "21", "21"},
		{c + `[9]`, "12", "12"},
		{c + `[10]`, "null", "null"},
		{`sum(` + c + `[3:6])`, "66", "66"},
		{`sum(` + c + `[3:3])`, "18", "18"},
		{`sum(` + c + `[6:12])`, "null", "73"},
		{`count(` + c + `[6:12])`, "6", "6"},
		{`sum(` + c + `[20:30])`, "1", "1"},
		{`sum(` + c + `[25:30])`, "null", "null"},
		{`sum(` + c + `[0:END])`, "null", "220"},
		{`sum(` + c + `[-10M:-15M])`, "37", "37"},
		{`sum(` + c + `[-10M:END])`, "null", "179"},

		// Differs. A null beside a look-up of a branch that is not taken: the old
		// program looked all of them up, and any null made the whole null.
		{`if(1 > 0, 7, ` + n + `[1])`, "7", "7"},
		// Differs: where the mad is 0 the old program kept nothing and divided by 0.
		{`avgMad(5, 5, 5, 9)`, "5", "5"},
		// Differs: 25 days overflowed 32 bits of milliseconds and looked into the
		// future, which found the newest; the oldest is the closest.
		{c + `[-25D]`, "1", "1"},
		{c + `[-300D]`, "1", "1"},
		// Differs: a range from older to newer was a null.
		{`sum(` + c + `[-15M:-10M])`, "37", "37"},
		{`sum(` + c + `[6:3])`, "66", "66"},
		// Differs: its median sorted an array with holes where nulls were left out,
		// and failed.
		{`median(2, null, 4)`, "null", "3"},
	}
}

type bischeckExample struct{ src, strict, skip string }

func TestBischeckExamples(t *testing.T) {
	for _, c := range bischeckExamples() {
		for policy, want := range []string{c.strict, c.skip} {
			if got := evaluate(t, c.src, bischeck, Options{Old: true}, Nulls(policy)); got != want {
				t.Errorf("%s under %v: got %s, want %s", c.src, Nulls(policy), got, want)
			}
		}
	}
}

// TestBischeckForecast follows its documentation: the line through the mean, the
// greatest or the least of each day, so many days from now. Its code counted from
// the end of an array that was up to two days longer, took 0 for the greatest of
// negative values, and refused every olss.
func TestBischeckForecast(t *testing.T) {
	// 30 days of a value each 12 hours: at 0:00 twice the day's number, at 12:00 so
	// much and 2 more. Today is day 30.
	var values []float64
	for i := range 61 {
		day, noon := (60-i)/2, (60-i)%2 == 0
		values = append(values, 2*float64(day)+map[bool]float64{true: 2}[noon])
	}
	h := fake{numbers("h-s-i", 12*time.Hour, values...)}
	for _, c := range []struct{ src, want string }{
		{`ols("h","s","i","MAX","D","30","END")`, "122"},
		{`ols("h","s","i","MAX","D","10","END")`, "82"},
		{`ols("h","s","i","max","d",10,14)`, "82"},
		{`ols("h","s","i","MAX","D","10","-14D")`, "82"},
		{`ols("h","s","i","MAX","D","10","END") * 2`, "164"},
		{`olss("h","s","i","MAX","D","END")`, "2"},
		{`olss("h","s","i","MAX","W","END")`, "12.4"},
		{`ols("h","s","none","AVG","D","30","END")`, "null"},
		{`ols("h","s","i","AVG","D","-30","END")`, `column 27: "-30" is not how many D ahead; write ols("host", "service", "item", "AVG", "D", 10, 14), or ols(x[-14D:-0D], "10D")`},
	} {
		p, err := Parse(c.src, Options{Old: true})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = evaluate(t, p.Canonical(), h, Options{Old: true}, Strict)
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.src, got, c.want)
		}
	}
}
