package manual

import (
	"fmt"
	"slices"
	"strings"
)

// Shells lists the shells that Completion supports.
var Shells = []string{"bash", "zsh", "fish", "powershell"}

// Completion returns the script that completes the command line in a shell. It
// is empty for an unknown shell.
func Completion(shell string, root *Command) string {
	switch shell {
	case "bash":
		return bash(root)
	case "zsh":
		return zsh(root)
	case "fish":
		return fish(root)
	case "powershell":
		return powershell(root)
	}
	return ""
}

// words lists what can follow a command: its subcommands and its flags.
func (c *Command) words() []string {
	var list []string
	for _, s := range c.Subs {
		list = append(list, s.Name)
	}
	for _, f := range c.Flags {
		list = append(list, f.Name)
	}
	return list
}

// below returns the path of a command without the program name: " cab list".
func below(root, c *Command) string { return strings.TrimPrefix(c.Path, root.Path) }

// shellCases returns the two case statements that bash and zsh share. The first
// one finds the command from the words of the line; the second one lists the
// words that can follow that command.
func shellCases(root *Command) (follow, offer string) {
	var f, o strings.Builder
	for _, c := range root.all() {
		if at := below(root, c); at != "" {
			fmt.Fprintf(&f, "      %q) at=\"$at $w\";;\n", at)
		}
		fmt.Fprintf(&o, "    %q) list=%q;;\n", below(root, c), strings.Join(c.words(), " "))
	}
	return f.String(), o.String()
}

func bash(root *Command) string {
	follow, offer := shellCases(root)
	return fmt.Sprintf(`# bash completion for %[1]s: source this file, or store it as
# ~/.local/share/bash-completion/completions/%[1]s
_%[1]s() {
  local at= w list= cur=${COMP_WORDS[COMP_CWORD]}
  for w in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$at $w" in
%[2]s    esac
  done
  case "$at" in
%[3]s  esac
  COMPREPLY=($(compgen -W "$list" -- "$cur"))
}
complete -o default -F _%[1]s %[1]s
`, root.Name, follow, offer)
}

func zsh(root *Command) string {
	follow, offer := shellCases(root)
	return fmt.Sprintf(`#compdef %[1]s
# zsh completion for %[1]s: store this file as _%[1]s in a folder of $fpath.
_%[1]s() {
  local at= w list=
  for w in "${(@)words[2,CURRENT-1]}"; do
    case "$at $w" in
%[2]s    esac
  done
  case "$at" in
%[3]s  esac
  compadd -- ${=list}
  _files
}
compdef _%[1]s %[1]s
`, root.Name, follow, offer)
}

func fish(root *Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# fish completion for %[1]s: store this file as ~/.config/fish/completions/%[1]s.fish\n", root.Name)
	var paths []string
	for _, c := range root.all() {
		if at := below(root, c); at != "" {
			paths = append(paths, fishQuote(at))
		}
	}
	fmt.Fprintf(&b, "function __%[1]s_at\n  set -l at ''\n  for w in (commandline -opc)[2..-1]\n"+
		"    if contains -- \"$at $w\" %[2]s\n      set at \"$at $w\"\n    end\n  end\n  test \"$at\" = \"$argv[1]\"\nend\n",
		root.Name, strings.Join(paths, " "))
	for _, c := range root.all() {
		when := fishQuote(fmt.Sprintf("__%s_at %s", root.Name, fishQuote(below(root, c))))
		for _, s := range c.Subs {
			fmt.Fprintf(&b, "complete -c %s -n %s -f -a %s -d %s\n", root.Name, when, s.Name, fishQuote(s.Help))
		}
		for _, f := range c.Flags {
			fmt.Fprintf(&b, "complete -c %s -n %s -l %s", root.Name, when, strings.TrimPrefix(f.Name, "--"))
			if f.Short != "" {
				b.WriteString(" -s " + strings.TrimPrefix(f.Short, "-"))
			}
			if len(f.Values) > 0 {
				b.WriteString(" -x -a " + fishQuote(strings.Join(f.Values, " ")))
			} else if f.Value != "" {
				b.WriteString(" -r")
			}
			b.WriteString(" -d " + fishQuote(f.Help) + "\n")
		}
	}
	return b.String()
}

func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

func powershell(root *Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# PowerShell completion for %[1]s: add this to $PROFILE:
#   %[1]s completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName %[1]s -ScriptBlock {
  param($word, $ast, $position)
  $commands = @{
`, root.Name)
	for _, c := range root.all() {
		list := slices.Clone(c.words())
		for i := range list {
			list[i] = psQuote(list[i])
		}
		fmt.Fprintf(&b, "    %s = @(%s)\n", psQuote(below(root, c)), strings.Join(list, ", "))
	}
	b.WriteString(`  }
  $at = ''
  foreach ($e in $ast.CommandElements | Select-Object -Skip 1) {
    if ($e.Extent.EndOffset -ge $position) { break }
    if ($commands.ContainsKey("$at $e")) { $at = "$at $e" }
  }
  $commands[$at] | Where-Object { $_ -like "$word*" } | ForEach-Object {
    [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
  }
}
`)
	return b.String()
}

func psQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
