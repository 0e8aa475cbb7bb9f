//go:build symdepot_next && !symdepot_later

package index

const later = false
