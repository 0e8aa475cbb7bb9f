package depot

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/durable"
	"github.com/symdepot/symdepot/internal/vault"
)

// AuditArchive holds the closed audit files of all servers in the depot's bucket,
// as audit/SERVER/FILE. As an archive it
// is that of this server.
type AuditArchive struct {
	vault *vault.Vault
	node  string
}

// AuditArchive returns the archive of a depot with a bucket, nil for other depots.
func (n *Nodes) AuditArchive() *AuditArchive {
	v, ok := n.blobs.(*vault.Vault)
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
	for info, err := range a.vault.Logs(ctx, a.node+"/") {
		if err != nil {
			return nil, err
		}
		names[strings.TrimPrefix(info.Key, a.node+"/")] = true
	}
	return names, nil
}

// Put stores a closed file of this server. Storing it twice is no error.
func (a *AuditArchive) Put(ctx context.Context, name string, size int64, r io.ReaderAt) error {
	return a.vault.PutLog(ctx, a.node+"/"+name, size, r)
}

// Fetch copies the files of all servers that may have records since a time to a
// folder for each server below dir. It returns, for each server, the name
// that the file log would have beside them.
func (a *AuditArchive) Fetch(ctx context.Context, dir, log string, since time.Time) ([]string, error) {
	var logs []string
	seen := map[string]bool{}
	for info, err := range a.vault.Logs(ctx, "") {
		if err != nil {
			return nil, err
		}
		node, name, ok := strings.Cut(info.Key, "/")
		if !ok || node != keyPart(strings.TrimPrefix(node, "n-")) || name != filepath.Base(name) || !filepath.IsLocal(name) {
			continue // not written by a server
		}
		if !info.ModTime.IsZero() && info.ModTime.Before(since) {
			continue
		}
		to := filepath.Join(dir, node)
		if !seen[node] {
			seen[node] = true
			if err := durable.MkdirAll(to, 0o700); err != nil {
				return nil, err
			}
			logs = append(logs, filepath.Join(to, log))
		}
		if err := a.fetch(ctx, info.Key, filepath.Join(to, name)); err != nil {
			return nil, err
		}
	}
	return logs, nil
}

func (a *AuditArchive) fetch(ctx context.Context, key, to string) error {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(a.vault.GetLog(ctx, key, f), f.Close())
}
