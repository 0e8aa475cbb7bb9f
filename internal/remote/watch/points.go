package watch

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/base/zstdpoint"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/index/watched"
)

// A package of Debian or RPM is often one zstd frame of a gigabyte, which can be read from its
// beginning only. While it is scanned, points are noted from which it can be read too. They
// are kept in a file for each such package, in a folder beside the index. These files are a
// cache: one that is missing or damaged costs time.

// Limits of the points of a folder.
const (
	pointBytes   = 512 << 20 // of all files
	pointShare   = 2         // of which one package has a half at most
	pointEvery   = 64 << 20  // decompressed bytes between two points
	pointWindows = 10        // windows between two points: what is kept is a tenth of the package
	pointWindow  = 8 << 20   // the largest window: that of zstd up to level 19
	maxPoints    = 1 << 16   // of one package
)

const (
	pointsMagic  = "symdepot points 1\n"
	pointsSuffix = ".points"
	pointsTemp   = ".tmp"
)

// pointFiles are the points of the packages of a folder.
type pointFiles struct {
	dir   string
	every int64      // see zstdpoint.Options
	mu    sync.Mutex // held by who evicts
}

func newPointFiles(opt *Options) *pointFiles {
	f := &pointFiles{dir: pointsDir(opt.Index), every: opt.pointEvery}
	if f.every <= 0 {
		f.every = pointEvery
	}
	return f
}

// pointsDir returns the folder of the points beside an index.
func pointsDir(index string) string {
	return strings.TrimSuffix(index, filepath.Ext(index)) + pointsSuffix
}

// RemoveIndex deletes the index of a watched folder, which nobody uses, with the points beside
// it.
func RemoveIndex(index string) error {
	return errors.Join(watched.RemoveWatched(index), os.RemoveAll(pointsDir(index)))
}

// pointsPath returns the path of the file of points of a package.
func (f *Folder) pointsPath(p string, s stamp) string {
	return filepath.Join(f.points.dir, etag(p, "", s)+pointsSuffix)
}

// keptPoint is a row of a file of points.
type keptPoint struct {
	base          int64 // of the stream in the package
	packed, plain int64
	window        byte
	checksum      bool
	at            int64 // of its state in the file
	size          int
	sum           uint64 // of the state, as it is in the file
}

// noting writes the points of one package. Nothing is there until the first point.
type noting struct {
	files *pointFiles
	path  string
	f     *os.File
	z     *zstd.Encoder
	rows  []keptPoint
	at    int64
	buf   []byte

	failed error // why noting has ended; nil: it has not, or there are points enough
}

// options are those of a zstd stream in the package.
func (n *noting) options(base, _ int64) zstdpoint.Options {
	return zstdpoint.Options{
		Every: n.files.every, Windows: pointWindows, MaxState: pointWindow,
		Note: func(p zstdpoint.Point) error { return n.add(base, p) },
	}
}

func (n *noting) add(base int64, p zstdpoint.Point) error {
	if n.f == nil {
		if n.failed = n.start(); n.failed != nil {
			return n.failed
		}
	}
	n.buf = n.z.EncodeAll(p.State, n.buf[:0])
	if n.at+int64(len(n.buf)) > pointBytes/pointShare || len(n.rows) >= maxPoints {
		return errors.New("the package has points enough")
	}
	if _, n.failed = n.f.Write(n.buf); n.failed != nil {
		return n.failed
	}
	n.rows = append(n.rows, keptPoint{base, p.Packed, p.Plain, p.Window, p.Checksum, n.at, len(n.buf), xxhash.Sum64(n.buf)})
	n.at += int64(len(n.buf))
	return nil
}

func (n *noting) start() (err error) {
	if n.z, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20),
		zstd.WithLowerEncoderMem(true)); err != nil {
		return err
	}
	if err := os.MkdirAll(n.files.dir, 0o700); err != nil {
		return err
	}
	if n.f, err = os.CreateTemp(n.files.dir, "*"+pointsTemp); err != nil {
		return err
	}
	n.at = int64(len(pointsMagic))
	_, err = n.f.WriteString(pointsMagic)
	return err
}

// end writes the file of the package, if keep is true and there are points. A fault is only
// logged: the package is served without points.
func (n *noting) end(keep bool, log *slog.Logger) {
	if n == nil {
		return
	}
	err := n.failed
	if n.f != nil {
		_ = n.z.Close() // nothing is in it
		err = errors.Join(err, n.write(keep && err == nil))
	}
	if err != nil {
		log.Warn("the points of a package in a watched folder cannot be kept: its members are slower to get", "file", n.path, "error", err)
	}
}

// write ends the file, or removes it.
func (n *noting) write(keep bool) error {
	if keep = keep && len(n.rows) > 0; keep {
		n.buf = encodePoints(n.buf[:0], n.rows)
		if _, err := n.f.Write(n.buf); err != nil {
			return errors.Join(err, n.discard())
		}
	}
	if !keep {
		return n.discard()
	}
	if err := n.f.Close(); err != nil {
		return errors.Join(err, os.Remove(n.f.Name()))
	}
	if err := os.Rename(n.f.Name(), n.path); err != nil {
		return errors.Join(err, os.Remove(n.f.Name()))
	}
	return n.files.evict(pointBytes)
}

func (n *noting) discard() error { return errors.Join(n.f.Close(), os.Remove(n.f.Name())) }

// footSize is the size of the end of a file of points: the size of its table and its sum.
const footSize = 16

// encodePoints appends the table and the end of a file.
func encodePoints(b []byte, rows []keptPoint) []byte {
	e := encoder{b}
	for _, r := range rows {
		e.number(uint64(r.base))
		e.number(uint64(r.packed))
		e.number(uint64(r.plain))
		e.number(uint64(r.window))
		sum := uint64(0)
		if r.checksum {
			sum = 1
		}
		e.number(sum)
		e.number(uint64(r.at))
		e.number(uint64(r.size))
		e.number(r.sum)
	}
	table := e.b
	e.b = binary.LittleEndian.AppendUint64(e.b, uint64(len(table)))
	return binary.LittleEndian.AppendUint64(e.b, xxhash.Sum64(table))
}

// readPoints reads the table of a file of size bytes.
func readPoints(r io.ReaderAt, size int64) (rows []keptPoint, err error) {
	var head [len(pointsMagic)]byte
	var foot [footSize]byte
	if size < int64(len(head))+footSize {
		return nil, errRow
	}
	if _, err := r.ReadAt(head[:], 0); err != nil || string(head[:]) != pointsMagic {
		return nil, errRow
	}
	if _, err := r.ReadAt(foot[:], size-footSize); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint64(foot[:])
	if length > uint64(size-footSize-int64(len(head))) || length > maxPoints*80 {
		return nil, errRow
	}
	table := make([]byte, length)
	start := size - footSize - int64(length)
	if _, err := r.ReadAt(table, start); err != nil || xxhash.Sum64(table) != binary.LittleEndian.Uint64(foot[8:]) {
		return nil, errRow
	}
	d := &decoder{b: table}
	for len(d.b) > 0 && !d.bad {
		p := keptPoint{base: int64(d.number()), packed: int64(d.number()), plain: int64(d.number())}
		p.window, p.checksum = byte(d.number()), d.number() == 1
		p.at, p.size, p.sum = int64(d.number()), int(d.number()), d.number()
		if p.at < 0 || p.size < 0 || p.at > start || int64(p.size) > start-p.at {
			return nil, errRow
		}
		rows = append(rows, p)
	}
	if d.bad {
		return nil, errRow
	}
	return rows, nil
}

// before returns the last point of the stream at base in front of an offset, out of the file
// of a package.
func (f *pointFiles) before(path string, base, offset int64) (p zstdpoint.Point, ok bool) {
	file, err := os.Open(path)
	if err != nil {
		return p, false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return p, false
	}
	rows, err := readPoints(file, info.Size())
	if err != nil {
		return p, false
	}
	var best *keptPoint
	for i := range rows {
		if r := &rows[i]; r.base == base && r.plain <= offset && (best == nil || r.plain > best.plain) {
			best = r
		}
	}
	if best == nil {
		return p, false
	}
	packed := make([]byte, best.size)
	if _, err := file.ReadAt(packed, best.at); err != nil || xxhash.Sum64(packed) != best.sum {
		return p, false
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(2*pointWindow))
	if err != nil {
		return p, false
	}
	defer z.Close()
	state, err := z.DecodeAll(packed, nil)
	if err != nil {
		return p, false
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // the files that are not used are evicted first
	return zstdpoint.Point{Packed: best.packed, Plain: best.plain, Window: best.window, Checksum: best.checksum, State: state}, true
}

// evict removes the files that were not used for the longest time, until the others have at
// most limit bytes; and what an interrupted scan has left.
func (f *pointFiles) evict(limit int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	var list []fs.FileInfo
	var sum int64
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if strings.HasSuffix(e.Name(), pointsTemp) {
			if time.Since(info.ModTime()) > 24*time.Hour { // else it may be being written
				_ = os.Remove(filepath.Join(f.dir, e.Name()))
			}
			continue
		}
		list, sum = append(list, info), sum+info.Size()
	}
	sorting.By(list, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range list {
		if sum <= limit {
			break
		}
		if err := os.Remove(filepath.Join(f.dir, info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		sum -= info.Size()
	}
	return nil
}

// placeOptions are the options of reading a part of a package of the index.
func (f *Folder) placeOptions(row *watched.File) scan.Options {
	opt := f.opt.scanOptions()
	path := f.pointsPath(within(row.Dir, row.Name), stampOf(*row))
	opt.PointBefore = func(base, offset int64) (zstdpoint.Point, bool) { return f.points.before(path, base, offset) }
	return opt
}
