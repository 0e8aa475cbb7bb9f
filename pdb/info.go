package pdb

import (
	"fmt"
	"strings"
)

// Limits of the info stream. Real ones have a few kilobytes.
const (
	maxInfo = 1 << 20 // bytes of the stream
	maxName = 2048    // bytes of the name of a stream
)

// FeatureMinimal is the feature code of a PDB made with /DEBUG:FASTLINK. It
// refers to object files on the build machine and is useless on other machines.
const FeatureMinimal = 0x494E494D // "MINI"

// Names returns the numbers of the named streams: /names, /LinkInfo, srcsrv and
// so on. The map must not be changed.
func (f *File) Names() (map[string]int, error) {
	t, err := f.tail()
	if err != nil {
		return nil, err
	}
	return t.names, nil
}

// FeatureCodes returns the feature codes at the end of the info stream, such
// as FeatureMinimal.
func (f *File) FeatureCodes() ([]uint32, error) {
	t, err := f.tail()
	if err != nil {
		return nil, err
	}
	return t.codes, nil
}

// FastLink reports whether the PDB was made with /DEBUG:FASTLINK. Such a PDB
// lacks the content of the object files.
func (f *File) FastLink() (bool, error) {
	codes, err := f.FeatureCodes()
	for _, c := range codes {
		if c == FeatureMinimal {
			return true, nil
		}
	}
	return false, err
}

// tail reads the rest of the info stream, once. An error is not cached, because
// the reader may have a larger budget at the next call.
func (f *File) tail() (*infoTail, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.info != nil {
		return f.info, nil
	}
	t, err := f.readTail()
	if err != nil {
		return nil, fmt.Errorf("pdb: PDB info stream: %w", err)
	}
	f.info = t
	return t, nil
}

func (f *File) readTail() (*infoTail, error) {
	s, err := f.section(InfoStream)
	if err != nil {
		return nil, err
	}
	at := int64(28)
	if f.Version <= maxOldInfo {
		at = 12
	}
	if s.Size() > maxInfo {
		return nil, fmt.Errorf("its %d bytes are more than the limit of %d", s.Size(), maxInfo)
	}
	t := &infoTail{names: map[string]int{}}
	if s.Size() <= at {
		return t, nil
	}
	b := make([]byte, s.Size()-at)
	if err := readFull(s, b, at); err != nil {
		return nil, err
	}
	c := &cursor{b: b}
	c.readNames(t)
	if c.err != nil && f.Version <= maxOldInfo {
		// The first compilers wrote no map, or one of a different format.
		return &infoTail{}, nil
	}
	if c.err != nil {
		return nil, fmt.Errorf("named streams: %w", c.err)
	}
	if len(c.b) == 0 {
		return t, nil // old files have no feature codes
	}
	if free := c.u32(); c.err == nil && free != 0 {
		// The rest differs in files of old compilers. The names are valid.
		return t, nil
	}
	for len(c.b) >= 4 {
		t.codes = append(t.codes, c.u32())
	}
	return t, nil
}

// readNames reads the names, and the hash table that maps their offsets to
// streams: bits for the used buckets, then these buckets. It returns the number
// of buckets.
func (c *cursor) readNames(t *infoTail) uint32 {
	// The names are substrings of one string, so that many entries for one long
	// name need no more memory.
	text := string(c.take(uint64(c.u32())))
	count, buckets := c.u32(), c.u32()
	present := c.take(4 * uint64(c.u32()))
	c.take(4 * uint64(c.u32())) // deleted buckets
	found := uint32(0)
	for i := 0; i < 8*len(present) && c.err == nil; i++ {
		if present[i/8]>>(i%8)&1 == 0 {
			continue
		}
		found++
		if found > count || uint32(i) >= buckets {
			c.err = fmt.Errorf("more than the %d names in %d buckets that the table has", count, buckets)
			return 0
		}
		off, n := c.u32(), c.u32()
		if c.err != nil {
			return 0
		}
		if int64(off) >= int64(len(text)) {
			c.err = fmt.Errorf("a name at offset %d of %d bytes", off, len(text))
			return 0
		}
		name := text[off:min(int64(off)+maxName, int64(len(text)))]
		end := strings.IndexByte(name, 0)
		if end < 0 {
			c.err = fmt.Errorf("the name at offset %d does not end", off)
			return 0
		}
		// A stream number is checked when the stream is opened.
		t.names[name[:end]] = int(min(n, maxStreams))
	}
	return buckets
}
