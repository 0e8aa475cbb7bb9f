package mstools

// The help texts of the symstore commands.

const symstoreHelp = `Keeps symbol stores on disk that every Windows debugger reads and that Microsoft's symstore.exe
can still write to. A program file named symstore, convertstore, agestore or symchk behaves as that
tool: existing scripts run unchanged.

  symdepot symstore add      store files, or pointers to them, as one transaction
  symdepot symstore del      delete a transaction
  symdepot symstore query    report which files a store or a server has
  symdepot symstore check    find the faults of a store, and repair them
  symdepot symstore convert  convert a store between one and two tiers
  symdepot symstore age      delete unused transactions or files
  symdepot symstore chk      report which programs lack symbols in a store, and download them

Options begin with / or -, in any letter case and order. /? after a command prints its help.

Exit codes: 0 done, 1 a file failed or the answer is no, 2 wrong command line, 3 no store found,
4 no such transaction, 5 the store is damaged, 19 the store is read-only, 32 locked for too long,
50 the file system refuses locks, 80 a file is in the way, 112 the disk is full, 123 a name that
Windows does not allow, 206 a path that is too long, 130 interrupted.
`

const commonHelp = `
Everywhere:
  /o                 print details
  /d LOGFILE         write the output to this file
  --json             one JSON object per line
  --map PREFIX=DIR   DIR is the folder on this machine that paths and records call PREFIX, such as
                     --map '\\hub\builds=/mnt/builds'; may be repeated
  --locking HOW      os (default), file (for disks without locks), none (a single writer)
  --lock-wait TIME   how long to wait for other writers; default 1m
`

const addHelp = `Stores files as one transaction: all become visible at the same time, or none.

  symdepot symstore add /r /f build/*.pdb /s /srv/symbols /t Game /v 1.2 /compress
  symdepot symstore add /f @files.txt /s \\hub\symbols /t Game
  symdepot symstore add /r /p /f \\hub\builds\1.2\*.* /s \\hub\symbols /t Game

  /f FILES           files, folders, names with * and ?, or @LIST, a file with one of these per line
  /r                 include subfolders
  /s STORE           the store; created if it does not exist
  /t PRODUCT  /v VERSION  /c COMMENT     for the records; /t is required
  /3                 a new store gets two tiers
  /compress [CAB|LZX]   store cabinets; --method mszip (default), lzx (smaller, slower) or none
  /p                 store pointers to the files, with network paths only
  /l                 with /p: any path
  -:REL              with /p: paths relative to the store
  -:MSG [TEXT]       with /p: add this text to the pointers, after the path; without a text, that
                     of /c
  -:NOREFS           create a store without refs.ptr, from which symstore.exe cannot delete. A store
                     that was created so stays so; any other refuses the option
  -:NOFORCECOPY      keep files that are already stored
  /z pub|pri         only public or only private symbols, and all programs
  /h pub|pri  /m PREFIX   prefer these symbols or these source paths among files of the same key
  --all              also store ELF, Mach-O and WASM files, images that contain only resources, and
                     compressed PDBs (MSFZ)
  --no-replace       a stored file with the same key and different content is an error (80)
  --all-or-nothing   store nothing if a file fails
  --oversize-plain   store a file uncompressed if it is too large for a cabinet

In two stages, the first on the machine with the files, the second on the machine with the store:

  symdepot symstore add /r /f /build/out /g /build /x build.idx
  symdepot symstore add /y build.idx /g \\archive\build /s \\hub\symbols /p /t Game

  /x INDEX           write names and keys to an index and store nothing; /a appends, /q omits
                     quotes. The index has a form of symdepot's own, so it is not written into a
                     store, or behind the lines of an index, that symstore.exe wrote last: --force
                     does that
  /g SHARE           remove this prefix from the paths in the index; in the second stage, add it
  /y INDEX           store the files of the index; /yi INDEX also appends the transaction number to it

Files of other types are counted as ignored; that is no error.
` + commonHelp + `
Exit codes: 0 no errors, 1 a file failed, 2 wrong command line, 19 read-only, 32 the store stayed
locked, 50 no locks, 80 a file is in the way, 112 disk full, 123 bad name, 206 long path.
`

const delHelp = `Deletes a transaction and its files, except files that other transactions share.

  symdepot symstore del /i 0000000042 /s /srv/symbols
  symdepot symstore del /i 42 /s /srv/symbols

  /i ID              the number; /s STORE the store
` + commonHelp + `
Exit codes: 0 deleted, 2 wrong command line, 3 no store found, 4 no such transaction, 5 damaged,
19 read-only, 32 the store stayed locked.
`

const queryHelp = `For each file, reports FOUND with the path in the store, or NOT FOUND.

  symdepot symstore query /r /f build /s /srv/symbols
  symdepot symstore query /f app.exe app.pdb /s https://symbols.example.com

  /f FILES           as for add; files without a key are ignored unless listed by name
  /r                 include subfolders
  /s STORE           a store, a flat folder, or a symbol server
  /o                 with the records of each file
  --all              also the files that add stores with --all
` + commonHelp + `
Exit codes: 0 all found, 1 at least one not found, 2 wrong command line, 3 no store found.
`

const checkHelp = `Finds the faults of a store: transactions without files, files without records, wrong pointers,
truncated or unreadable lists, remains of killed writers, damaged cabinets, and files whose content
does not match their key. Lines that begin with "note" are not faults.

  symdepot symstore check /srv/symbols
  symdepot symstore check --repair /srv/symbols

  --repair           repair the faults where possible; move files with wrong content to
                     000Admin/symdepot.quarantine
  --quick            do not read the stored files
  --remove-stray     with --repair: remove files that no transaction lists. They may belong to
                     another program
` + commonHelp + `
Exit codes: 0 clean, or all mended, 1 faults remain, 2 wrong command line, 3 no store found,
5 the records cannot be read, 32 the store stayed locked.
`

const convertHelp = `Changes a store from one tier (app.pdb/KEY/app.pdb) to two (ap/app.pdb/KEY/app.pdb) or back, in place.
Readers find every file during the conversion; other writers wait. The next command that writes to the store
completes an interrupted conversion.

  symdepot symstore convert /srv/symbols
  convertstore -s /srv/symbols

  /s STORE           the store
  --to one|two       default: the other one
  --move             for disks without hard links; readers may miss files while it runs
` + commonHelp + `
Exit codes: 0 converted, or nothing to do, 1 failed, 2 wrong command line, 3 no store found,
32 the store stayed locked.
`

const (
	ageExamples = `Deletes unused files: whole transactions of a store, so that its records stay consistent, or
single files of a folder without transactions, such as a debugger's cache.

  symdepot symstore age /srv/symbols -days=90 -l
  symdepot symstore age /srv/symbols --product Game --version '1.*' -days=30 -y
  symdepot symstore age /srv/symbols --gone /builds -y
`
	ageSelect = `  agestore /home/me/symbols -s -size=20000000000 -y

What to delete; with several options, all must match:
  -days=N  -date=M-D-Y   not used for N days, or since the date. Reading one of its files
                     counts as use of a transaction
  -size=BYTES        the least recently used first, until at most BYTES remain; without a value,
                     only print the size
  --by access|age    go by the last access (default; needs access times) or the date of storing
  --product P  --version V   with * and ?
  --gone FOLDER      stored from folders below FOLDER that no longer exist. Write FOLDER as the
                     records do; it must exist itself
  --keep N           never the newest N transactions of each product
`
	ageRest = `
  -l                 list what would be deleted and how much that frees
  -y                 do not ask for confirmation;  -q  do not list what is deleted
  -s                 in a folder without transactions: include subfolders;  -k  keep empty ones
` + commonHelp + `
Exit codes: 0 done, 1 something failed or the answer was no, 2 wrong command line, 3 no folder or no
transactions found, 32 the store stayed locked.
`
)

// agestoreHelp is the help of agestore, which has no rules of a retention policy.
const agestoreHelp = ageExamples + ageSelect + ageRest

const ageHelp = ageExamples + `  symdepot symstore age /srv/symbols --keep-last 20 --keep-within 14d --hold 42 --dry-run
` + ageSelect + `
What to keep, as in a retention policy. A transaction that one of these options keeps is never deleted. With
--keep-last or --keep-within and no option of the list above, all others are deleted:
  --keep-last N      the newest N transactions of each product; held ones do not count
  --keep-within TIME     transactions stored at most that long ago, such as 14d
  --hold ID          this transaction; may be repeated. An unknown number is an error (4)

  --dry-run          the same as -l
` + ageRest

const chkHelp = `Reports for each program whether its symbol files are in a store, and copies them into a cache folder.

  symchk /r /srv/app /s /srv/symbols
  symchk /v app.exe /s srv*/home/me/cache*https://symbols.example.com

For a machine without a network: list what it needs, download it on another machine, copy the folder back.

  symchk /r /srv/app /om needs.txt
  symchk /im needs.txt /s srv*fetched*https://symbols.example.com

  FILES              files, folders, names with * and ?; also /if FILE, /ie FILE, and /it LIST, a file
                     with one of these per line;  /r  include subfolders
  /id DUMP           check the modules of a crash dump;  /ih CABINET  check the programs in a cabinet
  /fm MODULE         only programs with that name;  /ea LIST  omit programs in LIST, a file with one per line
  /ee LIST           programs in LIST may fail: they count as ignored
  /s PATH            a symbol path: stores, flat folders and servers; srv*FOLDER*STORE copies into
                     FOLDER; separate elements by semicolons. Default: _NT_SYMBOL_PATH
  /om MANIFEST       only list the needed files;  /im MANIFEST  check the listed files
  /ps                the symbols must be stripped;  /pt  they must contain types
  /cc                a program without a CodeView record fails;  /cs  it is ignored (default)
  /oc DIR            copy the symbol files into folders without keys: DIR/symbols/exe/app.pdb
  /v                 print everything;  /q  print only what these options select:
  /oe /op /oi /od    failed, passed, ignored, all;  /ot  totals;  /os  full paths
  /ol FILE           write a table of the symbol files that passed
  /ov                print the version of each program, and its key
  --all              include ELF and Mach-O programs
  --json             one JSON object per line;  --map PREFIX=DIR  as for add

Exit codes: 0 all passed or ignored, 1 a program lacks symbols, 2 wrong command line, 3 no store found.
`
