package main

import (
	_ "embed"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/symdepot/symdepot/internal/manual"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/layout"
)

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command, such as: cab list."`
}

// Run prints the help of a command.
func (c helpCmd) Run(a *console) error {
	return term.Exit(run(append(c.Command, "--help"), a.stdout, a.stderr))
}

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish,powershell" help:"bash, zsh, fish or powershell."`
}

// Help is the long help text.
func (completionCmd) Help() string {
	return `Prints a script that completes commands and flags in a shell:

  symdepot completion bash > ~/.local/share/bash-completion/completions/symdepot
  symdepot completion zsh > ~/.zfunc/_symdepot          with ~/.zfunc in $fpath
  symdepot completion fish > ~/.config/fish/completions/symdepot.fish
  symdepot completion powershell | Out-String | Invoke-Expression

Exit codes: 0 printed, 2 wrong command line.`
}

// Run prints the script.
func (c completionCmd) Run(a *console, app *kong.Kong) error {
	root := describeNode(app.Model.Node)
	_, err := io.WriteString(a.stdout, manual.Completion(c.Shell, &root))
	return err
}

type manCmd struct {
	Dir string `arg:"" help:"Folder to write to."`
}

// Help is the long help text.
func (manCmd) Help() string {
	return `Writes a man page for symdepot and for each command, from the same text as --help.

  symdepot man /usr/local/share/man/man1

Exit codes: 0 written, 2 wrong command line, 3 failed.`
}

// Run writes the pages.
func (c manCmd) Run(app *kong.Kong) error {
	root := describeNode(app.Model.Node)
	return manual.WritePages(c.Dir, &root)
}

// flagTexts are the meanings of flags that are too long for their tags; see manual.Texts.
//
//go:embed flags.txt
var flagTexts string

// helpWords are what ${NAME} stands for in help texts and enums: the long texts, and lists
// of layouts.
func helpWords() kong.Vars {
	names := func(list []layout.Layout) string { return strings.Join(layout.Names(list), ", ") }
	packed := func(how layout.Packing) string {
		return names(slices.DeleteFunc(layout.All(), func(l layout.Layout) bool { return l.Packing() != how }))
	}
	return kong.Vars(manual.Texts(flagTexts)).CloneWith(kong.Vars{
		"layouts": names(layout.All()), "folder_layouts": names(layout.Folders()),
		"get_layouts":     strings.Join(layout.Names(layout.Folders()), ","),
		"cabinet_layouts": packed(layout.PackCabinet), "zstd_layouts": packed(layout.PackZstd),
	})
}

// describeNode describes a command and those below it.
func describeNode(n *kong.Node) manual.Command {
	c := manual.Command{Name: n.Name, Path: n.FullPath(), Usage: strings.TrimSpace("symdepot " + n.Summary()), Help: n.Help, Detail: n.Detail}
	if first, rest, ok := strings.Cut(n.Help, "\n\n"); ok { // the program's own description
		c.Help, c.Detail = first, rest
	}
	for _, p := range n.Positional {
		c.Args = append(c.Args, manual.Arg{Name: p.Name, Help: p.Help})
	}
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			if depotFlags[f.Name] && noDepot(n) {
				continue
			}
			a := manual.Arg{Name: "--" + f.Name, Help: kong.DefaultHelpValueFormatter(f.Value)}
			if f.Short != 0 {
				a.Short = "-" + string(f.Short)
			}
			if !f.IsBool() {
				a.Value = f.FormatPlaceHolder()
			}
			for _, v := range f.EnumSlice() {
				if v != "" {
					a.Values = append(a.Values, v)
				}
			}
			c.Flags = append(c.Flags, a)
		}
	}
	for _, s := range n.Children {
		if !s.Hidden {
			c.Subs = append(c.Subs, describeNode(s))
		}
	}
	return c
}

// depotFlags are the flags of commands that use a depot.
var depotFlags = map[string]bool{"depot": true, "blobs": true}

// noDepot reports whether a command, or one above it, has the tag of commands
// without a depot.
func noDepot(n *kong.Node) bool {
	for ; n != nil; n = n.Parent {
		if n.Tag != nil && n.Tag.Has("nodepot") {
			return true
		}
	}
	return false
}

// printHelp prints the help of a command, without the flags of the depot if it has none. A
// command of a group without a text of its own has that of the group.
func printHelp(opt kong.HelpOptions, ctx *kong.Context) error {
	for _, f := range ctx.Model.Flags {
		if depotFlags[f.Name] {
			f.Hidden = noDepot(ctx.Selected())
		}
	}
	if n := ctx.Selected(); n != nil && n.Detail == "" && n.Parent.Type == kong.CommandNode {
		n.Detail = n.Parent.Detail // a group of commands has one text
	}
	return kong.DefaultHelpPrinter(opt, ctx)
}
