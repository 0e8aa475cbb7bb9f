package shipment

import (
	"context"
	"crypto/md5"  //nolint:gosec // bills of materials have it
	"crypto/sha1" //nolint:gosec // bills of materials have it
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"io"
)

// algorithms are the hashes that bills of materials have of files, by names without hyphens.
var algorithms = map[string]func() hash.Hash{
	"MD5": md5.New, "SHA1": sha1.New, "SHA256": sha256.New, "SHA384": sha512.New384, "SHA512": sha512.New,
}

// Sums returns the hashes of r, of size bytes, by algorithms such as SHA256. Unknown algorithms are left out. It is
// nil if none is wanted.
func Sums(ctx context.Context, r io.ReaderAt, size int64, wanted []string) (map[string]string, error) {
	hashes := map[string]hash.Hash{}
	var all []io.Writer
	for _, name := range wanted {
		if f := algorithms[name]; f != nil && hashes[name] == nil {
			hashes[name] = f()
			all = append(all, hashes[name])
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	w, block := io.MultiWriter(all...), make([]byte, 256<<10)
	for off := int64(0); off < size; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := r.ReadAt(block[:min(int64(len(block)), size-off)], off)
		if n == 0 && err != nil {
			return nil, err
		}
		_, _ = w.Write(block[:n]) // hashes do not fail
		off += int64(n)
	}
	sums := map[string]string{}
	for name, h := range hashes {
		sums[name] = hex.EncodeToString(h.Sum(nil))
	}
	return sums, nil
}
