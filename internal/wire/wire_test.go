package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Messages as servers and workers of the release before write them.
const (
	recordedJob   = `{"id":17,"token":"q3tS","kind":"symcache","name":"app.pdb","guid":"0E7712BEAF064421884B496F833C8EC1","age":26,"major":3,"attempts":2,"lease_seconds":30}`
	recordedLease = `{"worker":"build7-k2x9q1","kinds":["symcache"],"versions":["3.1.0","4.0.0"],"slots":4,"wait_seconds":20}`
)

// recordedTypes are the messages of the release before.
type (
	recordedTypeJob struct {
		ID       int64  `json:"id"`
		Token    string `json:"token"`
		Kind     string `json:"kind"`
		Name     string `json:"name"`
		GUID     string `json:"guid"`
		Age      uint32 `json:"age"`
		Major    int    `json:"major"`
		Attempts int    `json:"attempts"`
		Seconds  int64  `json:"lease_seconds"`
	}
	recordedTypeLease struct {
		Worker   string   `json:"worker"`
		Kinds    []string `json:"kinds,omitempty"`
		Versions []string `json:"versions"`
		Slots    int      `json:"slots"`
		Wait     int      `json:"wait_seconds"`
	}
)

// TestReadOldLease: lease requests of earlier versions state abilities.
func TestReadOldLease(t *testing.T) {
	symcache := []Ability{{"symcache", 3, "3.1.0"}, {"symcache", 4, "4.0.0"}}
	many := strings.TrimSuffix(strings.Repeat(`"3.1.0",`, MaxAbilities+1), ",")
	for _, c := range []struct {
		name, text string
		want       []Ability // nil: an error
	}{
		{"recorded", recordedLease, symcache},
		{"without kinds", strings.Replace(recordedLease, `"kinds":["symcache"],`, "", 1), symcache},
		{"empty kinds", strings.Replace(recordedLease, `["symcache"]`, "[]", 1), symcache},
		{"a later kind too", strings.Replace(recordedLease, `["symcache"]`, `["later","symcache"]`, 1), append([]Ability{{Kind: "later"}}, symcache...)},
		{"a later kind only", strings.Replace(recordedLease, `["symcache"]`, `["later"]`, 1), []Ability{{Kind: "later"}}},
		{"no version", `{"worker":"w","versions":[],"slots":1}`, []Ability{}},
		{"no number", `{"worker":"w","versions":["x.1"],"slots":1}`, nil},
		{"too many versions", `{"worker":"w","versions":[` + many + `],"slots":1}`, nil},
		{"too many kinds", `{"worker":"w","kinds":[` + many + `],"versions":[],"slots":1}`, nil},
		{"too many abilities", `{"abilities":[{}` + strings.Repeat(`,{}`, MaxAbilities) + `]}`, nil},
		{"abilities decide", `{"abilities":[{"kind":"a","variant":2,"version":"v"}],"kinds":["symcache"],"versions":["3.1.0"]}`, []Ability{{"a", 2, "v"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var q LeaseRequest
			err := json.Unmarshal([]byte(c.text), &q)
			if (err != nil) != (c.want == nil) || err == nil && fmt.Sprint(q.Abilities) != fmt.Sprint(c.want) {
				t.Errorf("%s: abilities %v, error %v; want %v", c.text, q.Abilities, err, c.want)
			}
		})
	}
}

// TestWriteOldLease: a server of an earlier version finds its fields.
func TestWriteOldLease(t *testing.T) {
	b, err := json.Marshal(LeaseRequest{Worker: "build7-k2x9q1", Slots: 4, Wait: 20, Abilities: []Ability{{"symcache", 3, "3.1.0"}, {"symcache", 4, "4.0.0"}}})
	if err != nil {
		t.Fatal(err)
	}
	var got, want recordedTypeLease
	if err := json.Unmarshal([]byte(recordedLease), &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("an earlier server reads %+v from %s, error %v; want %+v", got, b, err, want)
	}
}

// TestReadOldJob: a job of a server of an earlier version has all fields of a job,
// and its input file is where that server has it.
func TestReadOldJob(t *testing.T) {
	var j Job
	if err := json.Unmarshal([]byte(recordedJob), &j); err != nil {
		t.Fatal(err)
	}
	want := Job{
		ID: 17, Token: "q3tS", Kind: "symcache", Key: "app.pdb/0E7712BEAF064421884B496F833C8EC11A", Variant: 3, Attempts: 2, Seconds: 30, old: true,
		Input: json.RawMessage(`{"name":"app.pdb","guid":"0E7712BEAF064421884B496F833C8EC1","age":26}`),
	}
	if !reflect.DeepEqual(j, want) {
		t.Errorf("read %+v with input %s, want %+v with input %s", j, j.Input, want, want.Input)
	}
	if v := j.InputVerb(); v != "pdb" {
		t.Errorf("the input file is at %q, want pdb", v)
	}
}

// TestWriteOldJob: a worker of an earlier version finds its fields.
func TestWriteOldJob(t *testing.T) {
	j := Job{
		ID: 17, Token: "q3tS", Kind: "symcache", Key: "app.pdb/0e77", Variant: 3, Attempts: 2, Seconds: 30,
		Input: json.RawMessage(`{"name":"app.pdb","guid":"0E7712BEAF064421884B496F833C8EC1","age":26}`),
	}
	b, err := json.Marshal(LeaseAnswer{Jobs: []Job{j}})
	if err != nil {
		t.Fatal(err)
	}
	var old struct{ Jobs []recordedTypeJob }
	var want recordedTypeJob
	if err := json.Unmarshal([]byte(recordedJob), &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &old); err != nil || len(old.Jobs) != 1 || old.Jobs[0] != want {
		t.Errorf("an earlier worker reads %+v from %s, error %v; want %+v", old.Jobs, b, err, want)
	}
	var again LeaseAnswer
	if err := json.Unmarshal(b, &again); err != nil || len(again.Jobs) != 1 || !reflect.DeepEqual(again.Jobs[0], j) {
		t.Errorf("read again: %+v from %s, error %v; want %+v", again.Jobs, b, err, j)
	}
	if v := again.Jobs[0].InputVerb(); v != "input" {
		t.Errorf("the input file is at %q, want input", v)
	}
}

// TestOtherKind: a job of another kind has no field of a kind.
func TestOtherKind(t *testing.T) {
	b, err := json.Marshal(Job{ID: 1, Token: "t", Kind: "other", Key: "k", Variant: 7, Input: json.RawMessage(`[1,2]`), Attempts: 1, Seconds: 30})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"id":1,"token":"t","kind":"other","key":"k","variant":7,"input":[1,2],"attempts":1,"lease_seconds":30}`; string(b) != want {
		t.Errorf("the job is sent as %s, want %s", b, want)
	}
}
