package cab_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/symdepot/symdepot/cab"
)

// A symbol store keeps foo.pdb compressed as foo.pd_: a cabinet of one file.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	out, err := os.Create(filepath.Join(dir, "foo.pd_"))
	if err != nil {
		log.Fatal(err)
	}
	defer out.Close()

	content := bytes.Repeat([]byte("symbols "), 10_000)
	size, _, err := cab.CreateChecked(context.Background(), out, []cab.Source{{
		Name:       "foo.pdb",
		Modified:   time.Date(2024, 5, 6, 7, 8, 10, 0, time.UTC),
		Attributes: cab.AttrArchive,
		Size:       int64(len(content)),
		Open:       func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
	}}, cab.WriteOptions{Method: cab.MSZIP})
	if err != nil {
		log.Fatal(err)
	}

	f, err := cab.OpenSingle(out, size, cab.Options{MaxOutput: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	var plain bytes.Buffer
	if _, err := f.Extract(&plain); err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Name, f.Size, f.Modified.Format(time.DateTime))
	fmt.Println(size < 1000, bytes.Equal(plain.Bytes(), content))
	// Output:
	// foo.pdb 80000 2024-05-06 07:08:10
	// true true
}

// Walk decodes each folder of a cabinet once, in the order of its content.
func ExampleReader_Walk() {
	r, file, err := cab.OpenFile("../testdata/cab/lzx.cab")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	err = r.Walk(func(f *cab.File, content io.Reader) error {
		n, err := io.Copy(io.Discard, content)
		fmt.Println(f.Name, n, r.Folders()[f.Folder].Compression)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// hello.c 181 LZX:21
	// hello-x64.exe 2560 LZX:21
}
