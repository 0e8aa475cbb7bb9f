package symbolicate

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// Bodies as clients write them are parsed without the general parser, and to the
// same jobs.
func TestParsePlain(t *testing.T) {
	symtest.Sequential(t)
	t.Parallel()
	seeds := []string{
		`{"memoryMap":[["xul.pdb","ABC1"],["other.pdb",""]],"stacks":[[[0,11723767],[0,16],[1,5],[-1,-1]],[]],"version":5}`,
		" { \"jobs\" : [ { \"stacks\" : [ [ [ 0 , 0 ] ] ] , \"memoryMap\" : [ [ \"a b.pdb\" , \"0\" ] ] } , {\"memoryMap\":[],\"stacks\":[[]]}\n] }\t",
		`{"version":4,"memoryMap":[["a","1"]],"stacks":[[[0,999999999999999999]]]}`,
	}
	for _, body := range seeds {
		jobs, ok := parsePlain([]byte(body))
		if !ok {
			t.Errorf("%s: not parsed as a plain body", body)
		}
		sameJobs(t, body, jobs)
	}
	// Whatever else is accepted means what the general parser says.
	rng := rand.New(rand.NewPCG(1, 2))
	const bytes = "{}[]\",:-0123456789 abeE.\\\n\xff"
	accepted := 0
	for range 200_000 {
		body := []byte(seeds[rng.IntN(len(seeds))])
		for range 1 + rng.IntN(3) {
			i := rng.IntN(len(body))
			switch c := bytes[rng.IntN(len(bytes))]; rng.IntN(3) {
			case 0:
				body[i] = c
			case 1:
				body = append(body[:i], body[i+1:]...)
			default:
				body = append(body[:i], append([]byte{c}, body[i:]...)...)
			}
		}
		if jobs, ok := parsePlain(body); ok {
			accepted++
			sameJobs(t, string(body), jobs)
		}
	}
	if accepted < 1000 {
		t.Errorf("%d mutated bodies were plain, want at least 1000 to compare", accepted)
	}
	for _, body := range []string{
		``, `{}`, `[]`, `{"jobs":[]}`, `{"jobs":[{}]}`, `{"memoryMap":[],"memoryMap":[],"stacks":[[]]}`, `{"memoryMap":[["\u0041","1"]],"stacks":[[]]}`,
		`{"memoryMap":[],"stacks":[[]]} x`, `{"memoryMap":[],"stacks":[[[0,0]]]}`, `{"memoryMap":[["a","x"]],"stacks":[[]]}`, `{"memoryMap":[],"stacks":[[[-1,01]]]}`,
	} {
		if _, ok := parsePlain([]byte(body)); ok {
			t.Errorf("%s: is plain, want the general parser to see it", body)
		}
	}
}

// sameJobs compares jobs with those of the general parser.
func sameJobs(t *testing.T, body string, jobs []Job) {
	t.Helper()
	want, err := parseAny([]byte(body))
	if err != nil {
		t.Errorf("%q: plain, but the general parser says: %v", body, err)
		return
	}
	if !reflect.DeepEqual(jobs, want) {
		t.Errorf("%q: plain\n%+v\nwant\n%+v", body, jobs, want)
	}
}
