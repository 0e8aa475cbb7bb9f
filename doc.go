// Package symdepot is the root of the module symdepot, which reads, finds and serves debug
// symbols of all platforms. It has no code. The program is cmd/symdepot, and these packages
// are for every Go program:
//
//   - objfile: what a file is and which ids it has; sections and symbols of ELF, Mach-O, PE and
//     WebAssembly. Begin with its function IdentifyFile.
//   - debugid: GUID and age, time stamp and size, build-id, UUID, in every spelling
//   - symfile, layout: the kind and the roles of an object; the paths that debuggers ask for, and back
//   - pdb, ppdb: program databases of Windows; portable PDBs of .NET
//   - applecrash: the stacks and images of a crash report of Apple's systems
//   - dump: the modules that a minidump or a core file needs symbols for
//   - symstore, cab, symcache: symbol stores of Microsoft's tools; cabinets; the SymCache of
//     Windows Performance Analyzer
//   - functab: the functions and lines at an address, in one form for all file formats
//   - objtab, dwarf: function tables of ELF, Mach-O and PE files; DWARF in sections from anywhere
//   - breakpad, gsym: Breakpad symbol files and GSYM files, from and to function tables
//   - public: the public forms of these files: names and unwind rules without lines, types and paths
//   - demangle, unwind: readable names of functions; rules for walking stacks
//
// They survive any input, and use neither cgo nor the network. Files need not be on disk.
// The documentation of each package says what is promised. docs/library.md has programs.
package symdepot
