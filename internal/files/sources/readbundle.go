package sources

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/files/scan"
)

// Limits of reading bundles.
const (
	maxManifest   = 64 << 20 // bytes
	maxMemberText = 64 << 20 // bytes of the names of all members
	freeRatio     = 64 << 10 // bytes of a file whose ratio does not matter
)

// ErrBundle is wrapped by the error of ReadBundle for a file that is no source bundle or a
// malformed one.
var ErrBundle = errors.New("not a source bundle, or a damaged one")

func badBundle(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBundle, fmt.Sprintf(format, args...))
}

// BundleReader is an open source bundle.
type BundleReader struct {
	Attributes
	Links map[string]string
	// Files are the files that the manifest lists and the archive has, in the order of the
	// manifest.
	Files []BundledFile
	// Refused names members that are left out, with the reasons, for people; at most 100.
	Refused []string
}

// ReadBundle reads the manifest of the source bundle of size bytes at r. Left out are files
// that are too large or compressed too well, members with an absolute name or "..", names
// that come twice, and members that the manifest does not list. The error wraps ErrBundle,
// or ErrTooLarge if the members together claim much more than the archive can hold; or it
// is that of reading.
func ReadBundle(r io.ReaderAt, size int64) (*BundleReader, error) {
	var head [bundleHeader]byte
	if n, err := r.ReadAt(head[:], 0); n < len(head) {
		if err == nil || errors.Is(err, io.EOF) {
			return nil, badBundle("%d bytes", n)
		}
		return nil, err
	}
	if v := binary.LittleEndian.Uint32(head[4:]); string(head[:4]) != bundleMagic || v == 0 || v > bundleVersion {
		return nil, badBundle("it begins with %q", head)
	}
	b := &BundleReader{}
	members, err := b.members(r, size)
	if err != nil {
		return nil, err
	}
	m, ok := members[manifestName]
	if !ok {
		return nil, badBundle("it has no %s", manifestName)
	}
	delete(members, manifestName)
	if m.Size > maxManifest {
		return nil, badBundle("the manifest has %d bytes", m.Size)
	}
	manifest, err := m.Open()
	if err != nil {
		return nil, badBundle("%v", err)
	}
	if err := b.manifest(manifest, members); err != nil {
		return nil, errors.Join(badBundle("the manifest: %v", err), manifest.Close())
	}
	return b, manifest.Close()
}

// members reads the directory of the archive.
func (b *BundleReader) members(r io.ReaderAt, size int64) (map[string]scan.ZipMember, error) {
	members := map[string]scan.ZipMember{}
	twice := map[string]bool{}
	n, text, total := 0, 0, int64(0)
	err := scan.ZipMembers(r, size, func(m scan.ZipMember) error {
		n++
		if text += len(m.Name); n > MaxNames+1 || text > maxMemberText {
			return badBundle("it has more than %d files", MaxNames)
		}
		if _, ok := members[m.Name]; ok || twice[m.Name] {
			delete(members, m.Name)
			twice[m.Name] = true
			return nil
		}
		if total += max(m.Size, 0); total < 0 || total > maxRatio*size+MaxEmbedded {
			return fmt.Errorf("%w: the files of a bundle of %d bytes have %d bytes and more", ErrTooLarge, size, total)
		}
		if m.Name == manifestName {
			members[m.Name] = m
			return nil
		}
		switch {
		case m.Name == "" || strings.HasPrefix(m.Name, "/") || strings.HasPrefix(m.Name, `\`) || isDrive(m.Name[:min(2, len(m.Name))]):
			b.refuse(m.Name, "an absolute name")
		case hasDots(m.Name):
			b.refuse(m.Name, `".." in its name`)
		case m.Size > MaxFile || m.Size > freeRatio && m.Size/maxRatio > m.Packed:
			b.refuse(m.Name, fmt.Sprintf("%d bytes, %d of them packed", m.Size, m.Packed))
		default:
			members[m.Name] = m
		}
		return nil
	})
	for name := range twice {
		b.refuse(name, "two members have this name")
	}
	slices.Sort(b.Refused)
	switch {
	case err == nil, errors.Is(err, ErrBundle), errors.Is(err, ErrTooLarge):
		return members, err
	case errors.Is(err, scan.ErrZip), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, badBundle("%v", err)
	}
	return nil, err
}

func (b *BundleReader) refuse(name, reason string) {
	if len(b.Refused) < 100 {
		b.Refused = append(b.Refused, fmt.Sprintf("%q: %s", name, reason))
	}
}

// manifest reads the manifest, one file at a time.
func (b *BundleReader) manifest(r io.Reader, members map[string]scan.ZipMember) error {
	d := json.NewDecoder(r)
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("no JSON object: %v", err) //nolint:errorlint // the caller makes it text
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		switch key, _ := t.(string); key {
		case "files":
			err = b.files(d, members)
		case "source_links":
			err = d.Decode(&b.Links)
		default:
			var v json.RawMessage
			if err = d.Decode(&v); err == nil {
				b.attribute(key, v)
			}
		}
		if err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return err
	}
	if _, err := io.Copy(io.Discard, d.Buffered()); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, r) // its size and its checksum
	return err
}

// attribute sets an attribute. Those that are not strings of a usual length are left out.
func (b *BundleReader) attribute(key string, v json.RawMessage) {
	for _, a := range b.list() {
		var s string
		if a.name == key && len(v) <= maxNameSize && json.Unmarshal(v, &s) == nil {
			*a.value = s
		}
	}
}

// files reads the list of files.
func (b *BundleReader) files(d *json.Decoder, members map[string]scan.ZipMember) error {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("no list of files: %v", err) //nolint:errorlint // the caller makes it text
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		var f manifestFile
		if err := d.Decode(&f); err != nil {
			return err
		}
		name, _ := t.(string)
		m, ok := members[name]
		if !ok || len(f.Path) > maxNameSize || f.Path == "" && f.URL == "" {
			continue
		}
		delete(members, name) // a second entry for it does not count
		b.Files = append(b.Files, BundledFile{Path: f.Path, URL: f.URL, Type: f.Type, Size: m.Size, Open: m.Open})
	}
	_, err := d.Token()
	return err
}
