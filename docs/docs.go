// Package docs has the files of the documentation, so that a server can show them.
package docs

import "embed"

// Files are the pages and their images, by their paths in this folder.
//
//go:embed *.md */*.md images
var Files embed.FS
