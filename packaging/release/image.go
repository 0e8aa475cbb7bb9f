package main

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/symdepot/symdepot/packaging/internal/oci"
)

// containerUser is the user of the server in containers. It has no rights outside,
// and a number that other images without a root use too.
const containerUser = 65532

// image writes the container image, for all processors that were built for Linux.
func (r *release) image() error {
	authorities, err := r.authorities()
	if err != nil {
		return err
	}
	im := oci.Image{
		Name: "localhost/symdepot:" + r.version.short, Created: r.at, Level: r.level,
		User: fmt.Sprintf("%d:%[1]d", containerUser),
		Env: []string{
			"PATH=/usr/bin", "HOME=/var/lib/symdepot", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
			"SYMDEPOT_DEPOT=/var/lib/symdepot", "SYMDEPOT_LISTEN=0.0.0.0:8080",
		},
		Command: []string{"/usr/bin/symdepot"}, Arguments: []string{"serve"},
		Ports: []string{"8080/tcp"}, Volumes: []string{"/var/lib/symdepot"}, Folder: "/var/lib/symdepot", StopBy: "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title":       "symdepot",
			"org.opencontainers.image.description": "Symbol server for every debugger",
			"org.opencontainers.image.url":         repository,
			"org.opencontainers.image.version":     r.version.full,
			"org.opencontainers.image.created":     r.at.Format(time.RFC3339),
			"org.opencontainers.image.licenses":    "Apache-2.0",
		},
		Health: &oci.Health{
			Test: []string{"CMD", "/usr/bin/symdepot", "health"}, Interval: 30 * time.Second, Timeout: 10 * time.Second,
			StartPeriod: time.Minute, Retries: 3,
		},
	}
	for _, p := range r.where {
		if p.os != "linux" {
			continue
		}
		program, err := os.ReadFile(filepath.Join(r.staged(p), "symdepot"))
		if err != nil {
			return err
		}
		files := []oci.File{
			{Name: "usr/bin/symdepot", Mode: 0o755, Body: program},
			{Name: "etc/passwd", Mode: 0o644, Body: fmt.Appendf(nil,
				"root:x:0:0:root:/:/sbin/nologin\nsymdepot:x:%d:%[1]d:symdepot:/var/lib/symdepot:/sbin/nologin\n",
				containerUser)},
			{Name: "etc/group", Mode: 0o644, Body: fmt.Appendf(nil, "root:x:0:\nsymdepot:x:%d:\n", containerUser)},
			{Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Body: authorities},
			{Name: "tmp/", Mode: 0o1777},
			{Name: "var/lib/symdepot/", Mode: 0o750, User: containerUser},
		}
		for name, from := range map[string]string{
			"LICENSE": "LICENSE", "THIRD-PARTY-LICENSES.txt": filepath.Join(r.staged(p), "THIRD-PARTY-LICENSES.txt"),
		} {
			b, err := os.ReadFile(from)
			if err != nil {
				return err
			}
			files = append(files, oci.File{Name: "usr/share/doc/symdepot/" + name, Mode: 0o644, Body: b})
		}
		im.Platforms = append(im.Platforms, oci.Platform{OS: p.os, Architecture: p.arch, Files: files})
	}
	if len(im.Platforms) == 0 {
		return nil
	}
	return writeFile(r.file("-oci.tar"), func(w io.Writer) error { return oci.Write(w, im) })
}

// authorities returns the certificates of the authorities that Mozilla trusts, which
// the Go project publishes as a module. An empty image has none, and upstreams are
// asked over TLS.
func (r *release) authorities() ([]byte, error) {
	out, err := exec.CommandContext(r.ctx, "go", "mod", "download", "-json", roots).Output()
	if err != nil {
		return nil, fmt.Errorf("go mod download %s: %w\n%s", roots, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, err
	}
	der, err := os.ReadFile(filepath.Join(module.Dir, "bundle", "bundle.der"))
	if err != nil {
		return nil, err
	}
	certs, err := x509.ParseCertificates(der)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, c := range certs {
		fmt.Fprintf(&b, "# %s\n", c.Subject)
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
