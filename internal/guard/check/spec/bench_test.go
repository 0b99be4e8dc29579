package spec

import (
	"strconv"
	"testing"
)

func BenchmarkInstance(b *testing.B) {
	f, problems := read(b, eachFile)
	if len(problems) > 0 {
		b.Fatal(told(problems))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := f.Checks[0].Instance(map[string]string{"operation": "GET /" + strconv.Itoa(i), "service": "shop"}); err != nil {
			b.Fatal(err)
		}
	}
}
