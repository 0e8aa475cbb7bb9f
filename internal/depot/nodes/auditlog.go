package nodes

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot/bucketstore"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
)

// AuditArchive holds the closed audit files of all servers in the depot's bucket,
// as audit/SERVER/FILE. As an archive it is that of this server.
type AuditArchive struct {
	store *bucketstore.Store
	node  string
}

// AuditArchive returns the archive of a depot with a bucket, nil for other depots.
func (n *Nodes) AuditArchive() *AuditArchive {
	v, ok := coldstore.BucketStore(n.blobs)
	if !ok {
		return nil
	}
	host, _ := os.Hostname()
	return &AuditArchive{v, keyPart(cmp.Or(n.name, host, "server"))}
}

// keyPart makes a part of an object's key, and of a path, from the name of a server.
func keyPart(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, "n-"+name)
}

// Names returns the names of this server's files.
func (a *AuditArchive) Names(ctx context.Context) (map[string]bool, error) {
	names := map[string]bool{}
	for info, err := range a.store.Logs(ctx, a.node+"/") {
		if err != nil {
			return nil, err
		}
		names[strings.TrimPrefix(info.Key, a.node+"/")] = true
	}
	return names, nil
}

// Put stores a closed file of this server. Storing it twice is no error.
func (a *AuditArchive) Put(ctx context.Context, name string, size int64, r io.ReaderAt) error {
	return a.store.PutLog(ctx, a.node+"/"+name, size, r)
}

// AuditLog are the closed audit files of one server in the bucket.
type AuditLog struct {
	Server string
	Files  []StoredLog
}

// StoredLog is a closed audit file in the bucket.
type StoredLog struct {
	Name string
	key  string
	size int64
	from *AuditArchive
	part int64
}

const (
	// auditMemory limits the memory in bytes for the files of all servers that are read
	// at the same time, one of each.
	auditMemory = 64 << 20
	// Of each file a part of this size is in memory.
	leastPart, mostPart = 16 << 10, 1 << 20
)

// Logs returns the files of all servers that may have records since a time. Nothing
// of them is read before they are opened.
func (a *AuditArchive) Logs(ctx context.Context, since time.Time) ([]AuditLog, error) {
	var logs []AuditLog
	at := map[string]int{}
	for info, err := range a.store.Logs(ctx, "") {
		if err != nil {
			return nil, err
		}
		node, name, ok := strings.Cut(info.Key, "/")
		if !ok || node != keyPart(strings.TrimPrefix(node, "n-")) || strings.Contains(name, "/") {
			continue // not written by a server
		}
		if !info.ModTime.IsZero() && info.ModTime.Before(since) {
			continue
		}
		i, ok := at[node]
		if !ok {
			i = len(logs)
			at[node] = i
			logs = append(logs, AuditLog{Server: node})
		}
		logs[i].Files = append(logs[i].Files, StoredLog{Name: name, key: info.Key, size: info.Size, from: a})
	}
	part := min(max(auditMemory/int64(max(len(logs), 1)), leastPart), mostPart)
	for i := range logs {
		for j := range logs[i].Files {
			logs[i].Files[j].part = part
		}
	}
	return logs, nil
}

// Open returns a reader of the file. It requests the file in parts, so that a reader
// that pauses holds no connection.
func (l StoredLog) Open(ctx context.Context) (io.ReadCloser, error) {
	if l.size < 0 {
		return nil, errors.New("the bucket does not say how long the file is")
	}
	return &logReader{ctx: ctx, log: l}, nil
}

// logReader reads a file in parts.
type logReader struct {
	ctx  context.Context
	log  StoredLog
	off  int64 // of what has not been requested yet
	part bytes.Buffer
}

func (r *logReader) Read(p []byte) (int, error) {
	if r.part.Len() == 0 {
		n := min(r.log.part, r.log.size-r.off)
		if n == 0 {
			return 0, io.EOF
		}
		r.part.Reset()
		if err := r.log.from.store.GetLog(r.ctx, r.log.key, r.off, n, &r.part); err != nil {
			return 0, err
		}
		if int64(r.part.Len()) != n {
			return 0, io.ErrUnexpectedEOF
		}
		r.off += n
	}
	return r.part.Read(p)
}

// Close implements io.Closer.
func (r *logReader) Close() error {
	r.off, r.part = r.log.size, bytes.Buffer{}
	return nil
}
