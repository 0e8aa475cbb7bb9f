//go:build symdepot_later

package index

const later = true
