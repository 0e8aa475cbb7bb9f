// Package oci writes container images: an OCI image layout in one tar file, from
// files and with nothing but the standard library. The same files give the same
// bytes. podman, docker (25 or newer), skopeo and containerd load such files.
package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// File is a file or a folder of an image.
type File struct {
	Name string // without a slash at the beginning; a folder ends in one
	Mode int64
	User int // owner and group
	Body []byte
}

// Platform is what an image holds for one system and processor.
type Platform struct {
	OS, Architecture string
	Files            []File // folders that are not named belong to root
}

// Image describes an image.
type Image struct {
	Name      string // with its tag, such as localhost/symdepot:VERSION
	Created   time.Time
	User      string // user:group, as numbers
	Env       []string
	Command   []string
	Arguments []string // of the command, which the user of the image may replace
	Ports     []string // such as 8080/tcp
	Volumes   []string
	Folder    string // the working folder
	StopBy    string // signal
	Labels    map[string]string
	Health    *Health
	Platforms []Platform
	Level     int // of the compression of layers, from 1 to 9
}

// Health is the check of a container's health. Docker and podman read it; the OCI
// specification has no such thing.
type Health struct {
	Test                           []string
	Interval, Timeout, StartPeriod time.Duration
	Retries                        int
}

// Types of contents.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor points to a content.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type configFile struct {
	Created      string  `json:"created"`
	Architecture string  `json:"architecture"`
	OS           string  `json:"os"`
	Config       config  `json:"config"`
	RootFS       rootFS  `json:"rootfs"`
	History      []event `json:"history"`
}

type config struct {
	User         string              `json:"User,omitempty"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts,omitempty"`
	Env          []string            `json:"Env,omitempty"`
	Entrypoint   []string            `json:"Entrypoint,omitempty"`
	Cmd          []string            `json:"Cmd,omitempty"`
	Volumes      map[string]struct{} `json:"Volumes,omitempty"`
	WorkingDir   string              `json:"WorkingDir,omitempty"`
	Labels       map[string]string   `json:"Labels,omitempty"`
	StopSignal   string              `json:"StopSignal,omitempty"`
	Healthcheck  *Health             `json:"Healthcheck,omitempty"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type event struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

// layout collects the contents of an image layout.
type layout struct{ blobs map[string][]byte }

// add keeps a content and returns its descriptor.
func (l *layout) add(kind string, body []byte) descriptor {
	sum := sha256.Sum256(body)
	name := hex.EncodeToString(sum[:])
	l.blobs[name] = body
	return descriptor{MediaType: kind, Digest: "sha256:" + name, Size: int64(len(body))}
}

// addJSON keeps a value as JSON.
func (l *layout) addJSON(kind string, v any) (descriptor, error) {
	b, err := json.Marshal(v)
	return l.add(kind, b), err
}

// Write writes the image as a tar file with an OCI image layout.
func Write(w io.Writer, im Image) error {
	l := layout{map[string][]byte{}}
	list := index{SchemaVersion: 2, MediaType: typeIndex}
	for _, p := range im.Platforms {
		d, err := l.platform(im, p)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", p.OS, p.Architecture, err)
		}
		d.Platform = &platform{p.Architecture, p.OS}
		list.Manifests = append(list.Manifests, d)
	}
	all, err := l.addJSON(typeIndex, list)
	if err != nil {
		return err
	}
	_, tag, _ := strings.Cut(path.Base(im.Name), ":")
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": im.Name}
	top, err := json.Marshal(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{all}})
	if err != nil {
		return err
	}
	files := []File{
		{Name: "oci-layout", Mode: 0o644, Body: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{Name: "index.json", Mode: 0o644, Body: top},
	}
	for name, body := range l.blobs {
		files = append(files, File{Name: "blobs/sha256/" + name, Mode: 0o644, Body: body})
	}
	return writeTar(w, files, im.Created)
}

// platform adds the manifest of one platform.
func (l *layout) platform(im Image, p Platform) (descriptor, error) {
	var plain, packed bytes.Buffer
	if err := writeTar(&plain, p.Files, im.Created); err != nil {
		return descriptor{}, err
	}
	diff := sha256.Sum256(plain.Bytes())
	z, err := gzip.NewWriterLevel(&packed, im.Level)
	if err != nil {
		return descriptor{}, err
	}
	if _, err := z.Write(plain.Bytes()); err != nil {
		return descriptor{}, err
	}
	if err := z.Close(); err != nil {
		return descriptor{}, err
	}
	created := im.Created.UTC().Format(time.RFC3339)
	conf, err := l.addJSON(typeConfig, configFile{
		Created: created, Architecture: p.Architecture, OS: p.OS,
		Config: config{
			User: im.User, ExposedPorts: set(im.Ports), Env: im.Env, Entrypoint: im.Command, Cmd: im.Arguments, Volumes: set(im.Volumes),
			WorkingDir: im.Folder, Labels: im.Labels, StopSignal: im.StopBy, Healthcheck: im.Health,
		},
		RootFS:  rootFS{"layers", []string{"sha256:" + hex.EncodeToString(diff[:])}},
		History: []event{{created, "files"}},
	})
	if err != nil {
		return descriptor{}, err
	}
	return l.addJSON(typeManifest, manifest{
		SchemaVersion: 2, MediaType: typeManifest, Config: conf, Layers: []descriptor{l.add(typeLayer, packed.Bytes())}, Annotations: im.Labels,
	})
}

func set(names []string) map[string]struct{} {
	m := map[string]struct{}{}
	for _, name := range names {
		m[name] = struct{}{}
	}
	return m
}

// writeTar writes files, sorted by name, after the folders that they are in.
func writeTar(w io.Writer, files []File, at time.Time) error {
	all := map[string]File{}
	for _, f := range files {
		if f.Name == "" || strings.HasPrefix(f.Name, "/") || path.Clean(f.Name) != strings.TrimSuffix(f.Name, "/") {
			return fmt.Errorf("the name %q is not a clean relative one", f.Name)
		}
		all[f.Name] = f
		for dir := path.Dir(strings.TrimSuffix(f.Name, "/")); dir != "."; dir = path.Dir(dir) {
			if _, ok := all[dir+"/"]; !ok {
				all[dir+"/"] = File{Name: dir + "/", Mode: 0o755}
			}
		}
	}
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	tw := tar.NewWriter(w)
	for _, name := range names {
		f := all[name]
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: f.Mode, Uid: f.User, Gid: f.User, Size: int64(len(f.Body)),
			ModTime: at, Format: tar.FormatPAX,
		}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := tw.Write(f.Body); err != nil {
			return err
		}
	}
	return tw.Close()
}
