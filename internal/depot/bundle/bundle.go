// Package bundle writes and reads bundles: signed archives that carry symbol
// files, with their transactions, into networks without internet access.
//
// A bundle is a zip archive. It holds the files below files/, then manifest.json
// with the SHA-256 of each file, and manifest.sig with the ed25519 signature of
// the bytes of manifest.json in base64, if the bundle is signed.
package bundle

import (
	"time"

	"github.com/symdepot/symdepot/internal/depot/needed"
)

const (
	kind          = "symdepot bundle"
	format        = 1
	filesDir      = "files/"
	manifestName  = "manifest.json"
	signatureName = "manifest.sig"
	maxText       = 256 << 20 // bytes of the manifest
	partFiles     = 500       // files without a transaction are imported in parts of this size
)

// Manifest is the content of manifest.json.
type Manifest struct {
	Kind    string    `json:"kind"`
	Format  int       `json:"format"`
	Created time.Time `json:"created"`
	// Product, Version and Comment are those of the files that belong to no
	// transaction.
	Product string `json:"product,omitempty"`
	Version string `json:"version,omitempty"`
	Comment string `json:"comment,omitempty"`
	// Transactions are recreated by Import, in this order. Bundles made by
	// earlier versions have none.
	Transactions []Transaction `json:"transactions,omitempty"`
	Files        []File        `json:"files"`
	// Missing are files that were wanted and not found.
	Missing []needed.Want `json:"missing,omitempty"`
}

// Transaction is a transaction of the depot that the bundle was made from.
type Transaction struct {
	Number  int64     `json:"number"`
	Product string    `json:"product,omitempty"`
	Version string    `json:"version,omitempty"`
	Comment string    `json:"comment,omitempty"`
	Who     string    `json:"who,omitempty"`
	Host    string    `json:"host,omitempty"`
	Time    time.Time `json:"time"`
}

// File is one file of a bundle.
type File struct {
	Path    string    `json:"path"` // in the archive, below files/
	Name    string    `json:"name"` // by which it is identified
	SHA256  string    `json:"sha256"`
	Size    int64     `json:"size"`
	ModTime time.Time `json:"mtime,omitzero"`
	// In are the numbers of the transactions that hold the file; empty for a
	// file that was wanted by itself.
	In []int64 `json:"in,omitempty"`
}
