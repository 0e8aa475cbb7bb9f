package symbolicate

import (
	"fmt"
	"slices"

	"github.com/symdepot/symdepot/internal/derive/jobs"
)

const (
	// Kind is the kind of the jobs that make symbol files.
	Kind = "symbols"
	// largeVariant is added to the format of jobs that only workers do.
	largeVariant = 16
	// madeSource is the source of results of files in trees. Like cached files, they
	// can be evicted and made again.
	madeSource = "symbols"
)

// Classes of failures.
const (
	classBad      = "bad-source" // the files cannot be read, or hold no functions
	classLimit    = "too-large"  // a limit was reached
	classTimeout  = "timeout"    // it took too long
	classNotFound = "absent"     // a file was removed before the job began
)

var classes = []string{classBad, classLimit, classTimeout, classNotFound}

// payload is stored with a job.
type payload struct {
	Format  Format     `json:"format"`
	Version int        `json:"version"`
	Name    string     `json:"name"`
	ID      string     `json:"id,omitempty"`
	Code    string     `json:"code,omitempty"`
	Files   []fileSpec `json:"files"`
}

// fileSpec names one file.
type fileSpec struct {
	Ref  string   `json:"ref,omitempty"`  // SHA-256 of a content
	Path []string `json:"path,omitempty"` // of a file in a tree
	Tag  string   `json:"tag,omitempty"`  // of such a file
	Name string   `json:"name"`
	Kind string   `json:"kind,omitempty"`
	Size int64    `json:"size"`
}

func payloadOf(f *files, format Format) payload {
	p := payload{Format: format, Version: Version, Name: f.name, Code: f.code}
	if !f.id.IsZero() {
		p.ID = f.id.Breakpad()
	}
	for _, x := range f.list {
		s := fileSpec{Name: x.name, Kind: x.kind.String(), Size: x.size}
		if x.hit != nil {
			s.Ref = x.hit.Ref.String()
		} else {
			s.Path, s.Tag = x.path, x.tag
		}
		p.Files = append(p.Files, s)
	}
	return p
}

func ability(variant int) jobs.Ability {
	return jobs.Ability{Kind: Kind, Variant: variant, Version: fmt.Sprint(Version)}
}

// hasWorker reports whether a worker does jobs of a variant.
func (svc *Service) hasWorker(variant int) bool {
	return slices.ContainsFunc(svc.Queue.Abilities(Kind), func(a jobs.Ability) bool { return a.Variant == variant })
}
