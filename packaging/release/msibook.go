package main

import (
	"crypto/sha256"
	"encoding/xml"
	"fmt"
	"path"
)

// bookSource is the source of the installer that lists the documentation.
const bookSource = "book.wxs"

// The elements of WiX that a list of files needs. Each folder with files is a component,
// which Windows Installer finds by its first file.
type (
	wixSource struct {
		XMLName xml.Name  `xml:"http://schemas.microsoft.com/wix/2006/wi Wix"`
		Top     wixFolder `xml:"Fragment>DirectoryRef"`
		Group   wixGroup  `xml:"Fragment>ComponentGroup"`
	}
	wixFolder struct {
		ID        string        `xml:"Id,attr"`
		Name      string        `xml:",attr,omitempty"`
		Component *wixComponent `xml:"Component"`
		Folders   []*wixFolder  `xml:"Directory"`
	}
	wixComponent struct {
		ID    string    `xml:"Id,attr"`
		GUID  string    `xml:"Guid,attr"`
		Win64 string    `xml:",attr"`
		Files []wixFile `xml:"File"`
	}
	wixFile struct {
		ID      string `xml:"Id,attr"`
		Name    string `xml:",attr"`
		Source  string `xml:",attr"`
		KeyPath string `xml:",attr,omitempty"`
	}
	wixGroup struct {
		ID         string   `xml:"Id,attr"`
		Components []wixRef `xml:"ComponentRef"`
	}
	wixRef struct {
		ID string `xml:"Id,attr"`
	}
)

// installedBook returns the source of the documentation in the installer: the same
// files in the same folders as in archives, below the folder of the program.
func installedBook(list []entry) ([]byte, error) {
	s := wixSource{Top: wixFolder{ID: "INSTALLDIR"}, Group: wixGroup{ID: "Book"}}
	folders := map[string]*wixFolder{".": &s.Top}
	var folder func(name string) *wixFolder
	folder = func(name string) *wixFolder {
		if f := folders[name]; f != nil {
			return f
		}
		f := &wixFolder{ID: wixID("folder", name), Name: path.Base(name)}
		folders[name] = f
		above := folder(path.Dir(name))
		above.Folders = append(above.Folders, f)
		return f
	}
	for _, e := range list {
		dir := path.Dir(e.name)
		f := folder(dir)
		file := wixFile{ID: wixID("file", e.name), Name: path.Base(e.name), Source: path.Join("book", e.name)}
		if f.Component == nil {
			f.Component = &wixComponent{ID: wixID("texts", dir), GUID: guidOf("texts " + dir), Win64: "yes"}
			s.Group.Components = append(s.Group.Components, wixRef{f.Component.ID})
			file.KeyPath = "yes"
		}
		f.Component.Files = append(f.Component.Files, file)
	}
	b, err := xml.MarshalIndent(s, "", "  ")
	return append([]byte(xml.Header), b...), err
}

// wixID returns an identifier of Windows Installer for a file or a folder: letters,
// digits and underscores.
func wixID(kind, name string) string {
	return fmt.Sprintf("%s_%.8x", kind, sha256.Sum256([]byte(name)))
}
