package contents

import "github.com/symdepot/symdepot/internal/index/record"

// minInDir is the number of files from which on a folder is a row.
const minInDir = 4

// pathInDir divides the path of a file into its folder and the rest, as rows may have them. The folder is empty if the
// row must have the whole path. by is its tx_file.by_path.
func pathInDir(path, name string, by int) (dir, rest string) {
	if by == byPathSource {
		return "", path // searched by the whole path
	}
	dir, rest = record.SplitPath(path, name)
	if by == byPathELF && rest != "" {
		return "", path // a search takes the rest for the name of the object
	}
	return dir, rest
}

// dirOf is a folder of some files, from the first of them to the last.
type dirOf struct {
	path        string
	first, last int
}

// numberDirs returns the folders that enough files have to be rows, and which of them each file has; -1: none.
func numberDirs(dirs []string) (list []dirOf, of []int) {
	count := make(map[string]int)
	for _, d := range dirs {
		count[d]++
	}
	of = make([]int, len(dirs))
	numbers := make(map[string]int)
	for i, d := range dirs {
		of[i] = -1
		if d == "" || count[d] < minInDir {
			continue
		}
		n, is := numbers[d]
		if !is {
			n = len(list)
			numbers[d] = n
			list = append(list, dirOf{path: d, first: i})
		}
		list[n].last = i
		of[i] = n
	}
	return list, of
}
