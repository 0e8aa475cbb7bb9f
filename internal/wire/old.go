package wire

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Servers and workers of earlier versions know one kind of job only, and messages
// with fields for that kind. This release sends these fields too, and understands
// messages that have nothing else. The next release drops this file.

// oldKind is the only kind of job of earlier versions.
const oldKind = "symcache"

// oldLease are the fields of a lease request for oldKind.
type oldLease struct {
	Kinds    []string `json:"kinds"`    // of jobs that the worker does; none means oldKind
	Versions []string `json:"versions"` // SymCache versions that its transcoders make
}

// oldJob are the fields of a job of oldKind.
type oldJob struct {
	oldInput
	Major int `json:"major"` // SymCache version to make
}

// oldInput is the input of oldKind. Its JSON is Job.Input.
type oldInput struct {
	Name string `json:"name"` // file name of the PDB
	GUID string `json:"guid"` // 32 upper-case hex digits
	Age  uint32 `json:"age"`
}

// plainLease and plainJob are the messages without their methods.
type (
	plainLease LeaseRequest
	plainJob   Job
)

// MarshalJSON adds the fields of earlier versions.
func (q LeaseRequest) MarshalJSON() ([]byte, error) {
	old := oldLease{Kinds: []string{}, Versions: []string{}}
	for _, a := range q.Abilities {
		if !slices.Contains(old.Kinds, a.Kind) {
			old.Kinds = append(old.Kinds, a.Kind)
		}
		if a.Kind == oldKind {
			old.Versions = append(old.Versions, a.Version)
		}
	}
	if q.Abilities == nil {
		q.Abilities = []Ability{}
	}
	return json.Marshal(struct {
		plainLease
		oldLease
	}{plainLease(q), old})
}

// errAbilities is the error for a lease request with too many or with malformed
// abilities.
var errAbilities = errors.New("the abilities of the worker are too many or malformed")

// UnmarshalJSON understands requests of workers of earlier versions.
func (q *LeaseRequest) UnmarshalJSON(b []byte) error {
	var m struct {
		plainLease
		oldLease
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	if len(m.Abilities) > MaxAbilities || len(m.Kinds) > MaxAbilities || len(m.Versions) > MaxAbilities {
		return errAbilities
	}
	*q = LeaseRequest(m.plainLease)
	if m.Abilities != nil {
		return nil
	}
	for _, kind := range m.Kinds {
		if kind != oldKind {
			q.Abilities = append(q.Abilities, Ability{Kind: kind})
		}
	}
	if len(m.Kinds) > 0 && !slices.Contains(m.Kinds, oldKind) {
		return nil
	}
	for _, version := range m.Versions {
		first, _, _ := strings.Cut(version, ".")
		major, err := strconv.Atoi(first)
		if err != nil {
			return errAbilities
		}
		q.Abilities = append(q.Abilities, Ability{Kind: oldKind, Variant: major, Version: version})
	}
	return nil
}

// MarshalJSON adds the fields of earlier versions to a job of their kind.
func (j Job) MarshalJSON() ([]byte, error) {
	var old *oldJob
	if j.Kind == oldKind {
		old = &oldJob{Major: j.Variant}
		if err := json.Unmarshal(j.Input, &old.oldInput); err != nil {
			return nil, err
		}
	}
	return json.Marshal(struct {
		plainJob
		*oldJob
	}{plainJob(j), old})
}

// UnmarshalJSON understands jobs of servers of earlier versions.
func (j *Job) UnmarshalJSON(b []byte) error {
	var m struct {
		plainJob
		oldJob
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	*j = Job(m.plainJob)
	if m.Input != nil || m.Kind != oldKind {
		return nil
	}
	j.old, j.Variant, j.Key = true, m.Major, m.Name+"/"+m.GUID+strings.ToUpper(strconv.FormatUint(uint64(m.Age), 16))
	var err error
	j.Input, err = json.Marshal(m.oldInput)
	return err
}

// InputVerb is the last segment of the path of the job's input file: InputVerb, or
// OldInputVerb for a server of an earlier version.
func (j Job) InputVerb() string {
	if j.old {
		return OldInputVerb
	}
	return InputVerb
}

// The last segments of the path of a job's input file.
const (
	InputVerb    = "input"
	OldInputVerb = "pdb"
)
