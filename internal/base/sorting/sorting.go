// Package sorting sorts lists where size counts more than speed.
package sorting

import "sort"

// By sorts a list by a function that is negative if a comes before b. Equal elements may
// change places.
//
// Go compiles slices.SortFunc again for each type of struct, which takes 10 to 30 KiB of the
// program each time. By takes 1 KiB and twice the time, so slices.SortFunc is for hot paths
// and for lists of pointers, numbers and texts.
func By[E any](list []E, compare func(a, b E) int) {
	if len(list) > 1 {
		sort.Slice(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
	}
}

// Stable is By, but equal elements keep their places.
func Stable[E any](list []E, compare func(a, b E) int) {
	if len(list) > 1 {
		sort.SliceStable(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
	}
}
