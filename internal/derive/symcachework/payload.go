package symcachework

import (
	"encoding/json"
	"fmt"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

// message is the input of a job for workers, as JSON.
type message struct {
	Name string `json:"name"` // file name of the PDB
	GUID string `json:"guid"` // 32 upper-case hex digits
	Age  uint32 `json:"age"`
}

func messageOf(key SymCacheKey) message {
	return message{Name: key.Name, GUID: key.ID.GUID.Upper(), Age: key.ID.Age}
}

func (m message) key() (SymCacheKey, error) {
	g, err := debugid.ParseGUID(m.GUID)
	return SymCacheKey{Name: m.Name, ID: debugid.ID{GUID: g, Age: m.Age}}, err
}

// payload is stored with a job.
type payload struct {
	message
	// Want is the version that could be made when the job was entered. A held file
	// of the same major version, but older, does not end the job.
	Want string `json:"want"`
}

func readPayload(j jobs.Job) (SymCacheKey, symcache.Version, error) {
	var p payload
	if err := json.Unmarshal(j.Payload, &p); err != nil {
		return SymCacheKey{}, symcache.Version{}, fmt.Errorf("job %d: %w", j.ID, err)
	}
	k, err := p.key()
	if err != nil {
		return k, symcache.Version{}, fmt.Errorf("job %d: %w", j.ID, err)
	}
	v, err := symcache.ParseVersion(p.Want)
	return k, v, err
}

const (
	// Kind is the kind of the jobs that make SymCache files, and the tool in the
	// records of derived contents and failures.
	Kind = "symcache"
	// transcoderSource is the source of results in the index. Like cached files,
	// they can be evicted and made again.
	transcoderSource = "transcoder"
	// Product is the product of results. No grant can name it: a caller sees a result
	// if and only if it sees the PDB.
	Product = "\x01transcoded"
)

// Classes of failures that are not the fault of a transcoder.
const (
	ClassNotFound  = "absent"    // the PDB is not found
	ClassForbidden = "forbidden" // an upstream denies access to the PDB
	ClassTransient = "transient" // an upstream cannot answer now
)

// SymCacheKey names the PDB that a SymCache file is made of.
type SymCacheKey = symcache.Key

// jobKey is the same for all spellings of a key.
func jobKey(k SymCacheKey) string { return symfile.Fold(k.Name) + "/" + symfile.Fold(k.ID.Breakpad()) }
