package mstools

// The help texts of the symstore commands.

const symstoreHelp = `Keeps symbol stores on disk that every Windows debugger reads and that Microsoft's symstore.exe
can go on writing. A program file named symstore, convertstore, agestore or symchk behaves as that
tool: existing scripts run unchanged.

  symdepot symstore add      store files, or pointers to them, as one transaction
  symdepot symstore del      delete a transaction
  symdepot symstore query    say which files a store or a server has
  symdepot symstore check    find what is wrong with a store, and mend it
  symdepot symstore convert  change a store between one and two tiers
  symdepot symstore age      delete what is not used any more
  symdepot symstore chk      say which programs lack symbols in a store, and fetch them

Options begin with / or -, in any case and order. Each command explains itself with /?.

Exit codes: 0 done, 1 a file failed or the answer is no, 2 wrong command line, 3 no store there,
4 no such transaction, 5 the store is damaged, 19 the store is read-only, 32 locked for too long,
50 the file system refuses locks, 80 a file is in the way, 112 the disk is full, 123 a name that no
store can have, 206 a path that is too long, 130 interrupted.
`

const commonHelp = `
Everywhere:
  /o                 say more
  /d LOGFILE         write the output to this file
  --json             one JSON object a line
  --map PREFIX=DIR   where this machine has what is spelled PREFIX in paths and records, such as
                     --map '\\hub\builds=/mnt/builds'; may be given several times
  --locking HOW      os (default), file (for disks that refuse locks), none (a single writer)
  --lock-wait TIME   how long to wait for other writers; default 1m
`

const addHelp = `Stores files as one transaction: all become visible at once, or nothing does.

  symdepot symstore add /r /f build/*.pdb /s /srv/symbols /t Game /v 1.2 /compress
  symdepot symstore add /f @files.txt /s \\hub\symbols /t Game
  symdepot symstore add /r /p /f \\hub\builds\1.2\*.* /s \\hub\symbols /t Game

  /f FILES           files, folders, names with * and ?, or @LIST, a file with one of these a line
  /r                 in the folders below as well
  /s STORE           the store; it is made if it is not there
  /t PRODUCT  /v VERSION  /c COMMENT     what is recorded; /t is required
  /3                 a new store gets two tiers
  /compress [CAB|LZX]   store cabinets; --method mszip (default), lzx (smaller, slower) or none
  /p                 store pointers to where the files are; network paths, or with
  /l                 any path, or with
  -:REL              paths relative to the store
  -:MSG TEXT         tell readers this instead of a path
  -:NOREFS           make no refs.ptr: what is stored so cannot be deleted
  -:NOFORCECOPY      leave files alone that are stored already
  /z pub|pri         only public, or only private, symbols; programs always
  /h pub|pri  /m PREFIX   what wins over other files of the same key: these symbols, these sources
  --all              ELF, Mach-O and WASM files too, under the keys of Microsoft's newer tools; images
                     of resources only; compressed PDBs (MSFZ)
  --no-replace       another file of the same key in the store is an error (80)
  --all-or-nothing   store nothing if a file fails
  --oversize-plain   store a file as it is that is too large for a cabinet

In two stages, the first where the files are and the second where the store is:

  symdepot symstore add /r /f /build/out /g /build /x build.idx
  symdepot symstore add /y build.idx /g \\archive\build /s \\hub\symbols /p /t Game

  /x INDEX           write names and keys to an index and store nothing; /a adds to it, /q leaves
                     out quotes
  /g SHARE           is cut off the paths in the index, and in the second stage put before them
  /y INDEX           store what the index lists; /yi INDEX also notes the transaction's number there

Files that no debugger asks for are counted as ignored, which is no error.
` + commonHelp + `
Exit codes: 0 no errors, 1 a file failed, 2 wrong command line, 19 read-only, 32 the store stayed
locked, 50 no locks there, 80 a file is in the way, 112 disk full, 123 bad name, 206 long path.
`

const delHelp = `Deletes a transaction, and of its files those that no other one holds.

  symdepot symstore del /i 0000000042 /s /srv/symbols
  symdepot symstore del /i 42 /s /srv/symbols

  /i ID              the number; /s STORE the store
` + commonHelp + `
Exit codes: 0 deleted, 2 wrong command line, 3 no store there, 4 no such transaction, 5 damaged,
19 read-only, 32 the store stayed locked.
`

const queryHelp = `Says for each file whether the store has it: FOUND and where, or NOT FOUND.

  symdepot symstore query /r /f build /s /srv/symbols
  symdepot symstore query /f app.exe app.pdb /s https://symbols.example.com

  /f FILES           as for add; files that have no key are passed over unless they are named
  /r                 in the folders below as well
  /s STORE           a store, a flat folder, or a symbol server
  /o                 with what the store records of each
  --all              what add stores with --all, too
` + commonHelp + `
Exit codes: 0 all found, 1 at least one was not, 2 wrong command line, 3 no store there.
`

const checkHelp = `Finds what is wrong with a store: transactions without files, files without records, pointers that
contradict them, cut or unreadable lists, what killed writers left, cabinets that do not decode, and
files that are not what their key says.

  symdepot symstore check /srv/symbols
  symdepot symstore check --repair /srv/symbols

  --repair           mend what can be mended; files that are not what they should be are moved to
                     000Admin/symdepot.quarantine
  --quick            do not read the stored files
  --remove-stray     with --repair: remove files that no transaction has. They may be another
                     program's
` + commonHelp + `
Exit codes: 0 clean, or all mended, 1 faults are left, 2 wrong command line, 3 no store there,
5 the records are beyond reading, 32 the store stayed locked.
`

const convertHelp = `Changes a store from one tier (app.pdb/KEY/app.pdb) to two (ap/app.pdb/KEY/app.pdb) or back, in place.
Readers find every file all the time; other writers wait. Interrupted, it is completed by the next
command that writes to the store, or by running it again.

  symdepot symstore convert /srv/symbols
  convertstore -s /srv/symbols

  /s STORE           the store
  --to one|two       without it: to the other arrangement
  --move             for disks without hard links; readers may miss files while it runs
` + commonHelp + `
Exit codes: 0 converted, or it was so already, 1 failed, 2 wrong command line, 3 no store there,
32 the store stayed locked.
`

const ageHelp = `Deletes what is not used any more. In a store these are whole transactions, so that its records stay
right; in a folder without transactions, such as a debugger's cache, single files.

  symdepot symstore age /srv/symbols -days=90 -l
  symdepot symstore age /srv/symbols --product Game --version '1.*' -days=30 -y
  symdepot symstore age /srv/symbols --gone /builds -y
  agestore /home/me/symbols -s -size=20000000000 -y

What may go; what several options say must all hold:
  -days=N  -date=M-D-Y   not used since. A transaction is used when one of its files is read
  -size=BYTES        the longest unused first, until what is left is no larger; without a value,
                     only say how large it is
  --by access|age    when it was last read (default, where the file system notes that), or stored
  --product P  --version V   with * and ?
  --gone FOLDER      stored from below FOLDER, from folders that are not there any more. FOLDER is
                     spelled as it is recorded and must itself be there
  --keep N           not the newest N transactions of each product

  -l                 list what would go and how much that frees, and delete nothing
  -y                 do not ask;  -q  do not list what is deleted
  -s                 in a folder without transactions: the folders below too;  -k  keep empty ones
` + commonHelp + `
Exit codes: 0 done, 1 something failed or the answer was no, 2 wrong command line, 3 no folder or no
transactions there, 32 the store stayed locked.
`

const chkHelp = `Says for each program whether the symbols that it asks for are in a store, and copies them into a folder
in front of the store.

  symchk /r /srv/app /s /srv/symbols
  symchk /v app.exe /s srv*/home/me/cache*https://symbols.example.com

For a machine without a network: list there what it needs, fetch it elsewhere, carry the folder back.

  symchk /r /srv/app /om needs.txt
  symchk /im needs.txt /s srv*fetched*https://symbols.example.com

  FILES              files, folders, names with * and ?; also /if FILE, /ie FILE, and /it LIST, a file
                     with one of these a line;  /r  in the folders below as well
  /id DUMP           the modules of a crash dump;  /ih CABINET  the programs in a cabinet, such as a hotfix
  /fm MODULE         only programs of that name;  /ea LIST  not those that the file lists, one a line
  /ee LIST           those that the file lists may fail: they count as ignored
  /s PATH            a symbol path: stores, flat folders and servers; srv*FOLDER*STORE fetches into
                     FOLDER; several are separated by semicolons. Default: _NT_SYMBOL_PATH
  /om MANIFEST       write what is needed and check nothing;  /im MANIFEST  check what it lists
  /ps                the symbols must be stripped;  /pt  they must hold types
  /cc                a program without a CodeView record fails;  /cs  it is ignored (default)
  /oc DIR            copy what passed into a classic tree: DIR/symbols/exe/app.pdb
  /v                 say everything;  /q  say nothing but what is asked for with
  /oe /op /oi /od    failed, passed, ignored, all;  /ot  totals;  /os  full paths
  /ol FILE           write a table of what passed
  /ov                print the version of each program, and its key
  --all              ELF and Mach-O programs too
  --json             one JSON object a line;  --map PREFIX=DIR  as for add

Exit codes: 0 all passed or ignored, 1 a program lacks symbols, 2 wrong command line, 3 no store there.
`
