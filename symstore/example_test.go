package symstore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/symdepot/symdepot/symstore"
)

// Two files are stored as one transaction, found by their key, and deleted again.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	s, err := symstore.Create(filepath.Join(dir, "symbols"), symstore.One, symstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	added, err := s.Add(ctx, symstore.AddOptions{Product: "Game", Version: "1.2", Compress: symstore.MSZIP},
		func(yield func(symstore.File, error) bool) {
			_ = yield(symstore.File{Path: "../testdata/pdb/hello-x64.pdb"}, nil) &&
				yield(symstore.File{Path: "../testdata/pdb/hello-x64.exe"}, nil)
		})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("transaction", added.ID, "with", added.Stored, "files")

	answers, err := s.Query("../testdata/pdb/hello-x64.exe", false)
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range answers {
		fmt.Println(a.Key, "is stored as", a.Found.Best())
	}

	if _, err := s.Del(ctx, added.ID); err != nil {
		log.Fatal(err)
	}
	_, err = s.Find("hello-x64.exe", answers[0].Key.Key)
	fmt.Println("after Del:", err)
	// Output:
	// transaction 0000000001 with 2 files
	// hello-x64.exe\C10891754000 is stored as hello-x64.exe/C10891754000/hello-x64.ex_
	// after Del: find hello-x64.exe/C10891754000: file does not exist
}

// Walk reads a whole store, for a program that imports it.
func ExampleStore_Walk() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := symstore.Create(dir, symstore.Two, symstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	_, err = s.Add(context.Background(), symstore.AddOptions{Product: "Game", Version: "1.2"},
		func(yield func(symstore.File, error) bool) {
			yield(symstore.File{Path: "../testdata/pdb/hello-x64.exe"}, nil)
		})
	if err != nil {
		log.Fatal(err)
	}
	for u, err := range s.Walk(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(u.ID, u.Product, u.Version)
		for _, e := range u.Entries {
			kept, err := s.StoredFiles(e.Name, e.Key)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(kept[0].Path, kept[0].Info.Size())
		}
	}
	// Output:
	// 0000000001 Game 1.2
	// he/hello-x64.exe/C10891754000/hello-x64.exe 2560
}
