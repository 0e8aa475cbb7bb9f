package home

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/engine"
)

// Format is the version of the depot's folder. Open refuses a depot with a higher
// one, unless its stamp permits programs of this one, and changes nothing in it.
const Format = 1

// Errors of Open that a command may want to distinguish.
var (
	ErrNoDepot = errors.New("no depot found")
	ErrNewer   = errors.New("the depot was made by a newer symdepot")
	// ErrUnreleased means that a depot was made by a symdepot of before release 0.1.0.
	ErrUnreleased = engine.ErrUnreleased
)

// IsUnusable reports whether err means that this program cannot use the depot's
// index: it is damaged, or was written by a newer version, by one of before release 0.1.0,
// or by a different program.
func IsUnusable(err error) bool {
	_, stamp := errors.AsType[stampError](err)
	return stamp || errors.Is(err, engine.ErrCorrupt) || errors.Is(err, engine.ErrForeign) ||
		errors.Is(err, engine.ErrNewer) || errors.Is(err, ErrUnreleased)
}

// Stamp is the content of depot.json.
type Stamp struct {
	Format int `json:"format"`
	// Floor is the oldest Format that a program must know to use the folder; zero
	// means the stamp's own.
	Floor   int       `json:"floor,omitempty"`
	Created time.Time `json:"created"`
	// ID is random text: it tells the folder from every other depot. It is empty in depots
	// that were made before there was one.
	ID string `json:"id,omitempty"`
	// Contents is the URL of the bucket that keeps the contents; empty if the
	// folder does.
	Contents string `json:"contents,omitempty"`
	// Moved is where Migrate has copied the depot to. Format is then MovedFormat,
	// so that older programs refuse the folder.
	Moved string `json:"moved,omitempty"`
}

// ErrMoved means that the depot was migrated: it is used at its new place.
var ErrMoved = errors.New("the depot was moved")

// MovedError is ErrMoved for a depot that was moved to a place.
func MovedError(to string) error {
	return fmt.Errorf("%w to %s; open that one, or make this one usable again with `symdepot depot unmove` "+
		"while nothing uses the other", ErrMoved, to)
}

// MovedFormat is the format of the stamp of a moved depot. Programs that do not
// know Migrate refuse it.
const MovedFormat = 2

// BucketOf returns the URL of the bucket that keeps the contents of the depot in
// a folder; empty if the folder does, or if there is no depot.
func BucketOf(dir string) (string, error) {
	b, err := durable.ReadFile(filepath.Join(dir, "depot.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var s Stamp
	if err == nil {
		_ = json.Unmarshal(b, &s) // Open reports damage
	}
	return s.Contents, err
}

func newStamp(opt Options) Stamp {
	now := opt.Now
	if now == nil { // there is no index yet
		now = time.Now
	}
	s := Stamp{Format: Format, Created: now().UTC().Truncate(time.Second), ID: rand.Text()}
	if opt.Bucket != nil {
		s.Contents = opt.Bucket.Name()
	}
	return s
}

// checkContents compares where the contents are with where they were.
func (s Stamp) checkContents(opt Options) error {
	name := ""
	if opt.Bucket != nil {
		name = opt.Bucket.Name()
	}
	switch {
	case s.Contents == name:
		return nil
	case s.Contents == "":
		return fmt.Errorf("it keeps its contents in its folder, not in %s; open it without --blobs", name)
	case name == "":
		return fmt.Errorf("it keeps its contents in %s; name it with --blobs", s.Contents)
	}
	return fmt.Errorf("it keeps its contents in %s, not in %s", s.Contents, name)
}

// stampError is the error for a damaged depot.json.
type stampError string

func (e stampError) Error() string { return string(e) }

// ReadStamp reads depot.json. If it does not exist, the error is fs.ErrNotExist.
func ReadStamp(dir string) (s Stamp, err error) {
	b, err := durable.ReadFile(filepath.Join(dir, "depot.json"))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil || s.Format < 1 {
		return s, stampError(dir + ": depot.json is damaged")
	}
	return s, nil
}

// WriteStamp writes depot.json.
func WriteStamp(dir string, s Stamp, with Sharing) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "depot.json")
	if err := durable.WriteFile(path, append(b, '\n'), 0o600); err != nil {
		return err
	}
	return with.File(path)
}

// NewerFormatError is ErrNewer for the format of a depot or a backup.
type NewerFormatError int

// Error implements error.
func (e NewerFormatError) Error() string {
	return fmt.Sprintf("format %d is newer than this program (format %d); use the newer symdepot", int(e), Format)
}

// Is implements errors.Is: the error is ErrNewer.
func (NewerFormatError) Is(target error) bool { return target == ErrNewer }

// ChangeStamp rewrites depot.json.
func ChangeStamp(dir string, change func(s *Stamp)) error {
	path := filepath.Join(dir, "depot.json")
	b, err := durable.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("depot %s: %w", dir, ErrNoDepot)
	}
	if err != nil {
		return err
	}
	var s Stamp
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("depot %s: depot.json: %w", dir, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	change(&s)
	if b, err = json.Marshal(s); err != nil {
		return err
	}
	if err := durable.WriteFile(path, append(b, '\n'), info.Mode().Perm()); err != nil {
		return err
	}
	return SharingOf(dir, "").File(path)
}

// fingerprintOf returns the fingerprint of the depot in a folder or a database: a hash of its
// random id, which says nothing of the depot. It is empty if a database has no id yet.
func fingerprintOf(ctx context.Context, where string, db *index.DB) (string, error) {
	var id string
	if engine.IsURL(where) {
		known, err := db.Places.KnownDepot(ctx)
		if err != nil || known == "" {
			return "", err
		}
		id = known
	} else {
		s, err := ReadStamp(where)
		if err != nil {
			return "", err
		}
		id = s.ID + " " + s.Created.UTC().Format(time.RFC3339)
	}
	sum := sha256.Sum256([]byte("symdepot depot " + id))
	return hex.EncodeToString(sum[:16]), nil
}
